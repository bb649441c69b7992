"""Private things planted in every kind of file: scrubbing removes them, verifying and importing find them."""

import getpass
import json
import lzma
import re
import re._parser as sre  # type: ignore[import-not-found]
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from labcode.capture import archive, bench, ncu_scrub, privacy, scan, torch_profile, verify
from labcode.capture.scrub import scrub_export, scrub_file
from labcode.errors import InputError
from labcode.reports.ncu import wire
from labcode.reports.ncu.report import open_report
from tests.capture import fakes
from tests.capture.conftest import Lab
from tests.capture.test_archive import edit_manifest, replace, rewrite
from tests.capture.test_verify import export_of, found, put
from tests.support import exports as e
from tests.support import ncu
from tests.support.growth import processor_time

# Each holds 77, which must be gone.
PLANTED = {
    "file URL": "see file:///home/jd77/run/a.py",
    "file URL with a host": "see file://box77/share/run/a.py",
    "user's folder": "~jd77/code/a.py",
    "user": "folder of ~jd77",
    "home": "in /home/jd77",
    "home with a slash": "in /home/jd77/",
    "spaces": "/home/Jane Doe77/My own files/train.py",
    "escaped spaces": r"/home/Jane\ Doe77/train.py",
    "doubled slashes": "//data2//jd77//x.bin",
    "escaped slashes": r"\/home\/jd77\/x.bin",
    "after an escaped line": r"first\n/home/jd77/x.bin",
    "other root": "/data2/jd77/x.bin",
    "any folder": "wrote /jd77/x.bin",
    "NFS": "filer77:/export/jobs/x.bin",
    "UNC": r"\\filer77\share\x.bin",
    "doubled UNC": r"\\\\filer77\\share\\x.bin",
    "Windows": r"C:\Users\jd77\x.bin",
    "doubled Windows": r"D:\\jobs\\jd77\\x.bin",
    "Windows with slashes": "C:/Users/jd77/x.bin",
    "Windows with spaces": r"C:\Users\Jane Doe77\x.bin",
    "IP address": "rank 0 at 10.1.77.4",
    "IP address with a port": "cuda 10.1.77.4:29500",
    "public IP address": "addr=203.0.113.77",
    "IPv6 address": "at fe80::1c77:1",
    "MAC address": "eth0 02:42:ac:11:77:02",
    "PCI id": "GPU at 0000:77:00.0",
    "long PCI id": "00000000:77:00.0",
    "short PCI id": "PCI 77:00.0",
    "user at a host": "ssh jd77@gpu-box",
    "e-mail address": "jd77@example.org",
    "variable": "started with SLURM_JOB_ID=77",
    "variables in JSON": '{"HOME": "/jd77", "SLURM_JOB_ID": "77", "MY_API_KEY": "77"}',
    "variables in JSON in JSON": r"{\"env\": {\"USER\": \"jd77\"}}",
    "token": "hf_abcdefghijklmnopqrst77",
    "cloud host": "on ip-10-0-77-1",
    "inner host": "gpu77.internal",
    "GPU": "GPU-77345678-12ab-12ab-12ab-123456789abc",
}
planted = pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)


def refused(lab: Lab, experiment: str, name: str, data: bytes) -> None:
    """Verifying a set with these bytes in a file finds something private; importing them is refused."""
    put(lab, experiment, name, data)
    assert {(f.where, f.kind) for f in found()} == {(f"{experiment}/{name}", "private")}
    other = rewrite(lab.archive, lambda members: replace(members, f"{experiment}/{name}", data))
    with pytest.raises(InputError, match="holds something private"):
        archive.add([other])


def changed(export: bytes, *sql: tuple[str, object]) -> bytes:
    """An export's bytes after statements with one value each."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(export)
        for statement, value in sql:
            db.execute(statement, (value,))
        db.commit()
        return db.serialize()


@planted
def test_in_an_export(captured: Lab, tmp_path: Path, text: str) -> None:
    raw, clean = tmp_path / "raw.sqlite", tmp_path / "clean.sqlite"
    e.make_export(
        raw,
        kernels=[e.kernel(1_100, 1_200, f"kernel {text}", short="kernel", correlation=1)],
        api=[e.call(1_000, 1_010, correlation=1)],
        nvtx=[e.push_pop(1, 2, text), e.push_pop(3, 4, f"range {text} here", registered=True)],
        threads=[e.thread(100, 100, f"thread {text}")],
        processes=[e.process(100, text)],
        diagnostics=[e.diagnostic(f"said: {text}")],
        extra_sql=[
            "CREATE TABLE CUBLAS_EVENTS (start INTEGER, blob BLOB)",
            f"INSERT INTO CUBLAS_EVENTS VALUES ('{text}', x'{text.encode('utf-16-le').hex()}')",
        ],
    )
    assert privacy.find(scan.texts_of(raw)) != []
    scrub_export(raw, clean)
    assert privacy.find(scan.texts_of(clean)) == []
    texts = "".join(t for t in scan.texts_of(clean) if "GPU-" not in t)
    assert "77" not in texts and "Doe" not in texts
    name = "baseline.nsys.xz"
    export = export_of(captured.sets / "mine/alpha" / name)
    statement = "UPDATE NVTX_EVENTS SET text = ? WHERE text = 'inside'"
    refused(captured, "alpha", name, lzma.compress(changed(export, (statement, text)), preset=0))


@pytest.mark.parametrize("length", range(14, 62))
def test_paths_of_every_length_are_found_in_exports(tmp_path: Path, length: int) -> None:
    """Before a text of such a length SQLite writes a byte that looks like a letter."""
    path = scrub_file(e.make_export(tmp_path / "raw.sqlite"))
    assert scan.look_into(path, "raw").private == ()
    private = "/home/me/" + "x" * (length - 9)
    path.write_bytes(changed(path.read_bytes(), ("INSERT INTO StringIds VALUES (77, ?)", private)))
    assert scan.look_into(path, "raw").private == (f"an absolute path ({private[:60]})",)


@pytest.mark.parametrize(
    "sql",
    [
        ("UPDATE NVTX_EVENTS SET text = ?", "/home/me/x.bin".encode("utf-16-le")),
        ("UPDATE NVTX_EVENTS SET text = ?", "\0".join("/home/me/x.bin")),
        ("UPDATE NVTX_EVENTS SET start = ?", "/home/me/x.bin"),
        ("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_HOST', ?)", "box"),
    ],
    ids=["UTF-16 bytes", "UTF-16 text", "column of numbers", "host"],
)
def test_odd_places_of_an_export(captured: Lab, tmp_path: Path, sql: tuple[str, object]) -> None:
    name = "baseline.nsys.xz"
    data = changed(export_of(captured.sets / "mine/alpha" / name), sql)
    refused(captured, "alpha", name, lzma.compress(data))
    raw = tmp_path / "raw.sqlite"
    raw.write_bytes(data)
    assert privacy.find(scan.texts_of(scrub_file(raw))) == []


def test_an_export_in_utf_16_and_one_with_deleted_rows(captured: Lab, tmp_path: Path) -> None:
    name = "baseline.nsys.xz"
    export = export_of(captured.sets / "mine/alpha" / name)
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(export)
        script = "\n".join(db.iterdump())
    path = tmp_path / "wide.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA encoding = 'UTF-16'")
        db.executescript(script)
        db.execute("UPDATE NVTX_EVENTS SET text = 'in /home/me/x'")
        db.commit()
    refused(captured, "alpha", name, lzma.compress(path.read_bytes()))
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(export)
        db.execute("CREATE TABLE ENUM_X (id INTEGER, label TEXT)")
        db.executemany("INSERT INTO ENUM_X VALUES (1, ?)", [("x" * 900 + " /home/me/x",)] * 40)
        db.execute("DROP TABLE ENUM_X")
        db.commit()
        deleted = db.serialize()
    refused(captured, "alpha", name, lzma.compress(deleted))


def test_an_export_that_was_never_scrubbed_is_refused(captured: Lab, tmp_path: Path) -> None:
    path = e.make_export(tmp_path / "raw.sqlite", extra_sql=["CREATE TABLE SOMETHING_NEW (number INTEGER)"])
    refused(captured, "alpha", "baseline.nsys.xz", lzma.compress(path.read_bytes()))
    assert "tables that scrubbing drops (SOMETHING_NEW)" in str(found()[0])


def trace_of(text: str) -> dict[str, object]:
    common = {"pid": 4711, "tid": 4711, "ts": 1.0, "dur": 9.0}
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": text},
        "deviceProperties": [{"id": 0, "name": text}],
        "traceEvents": [
            {"ph": "M", "name": "process_labels", "pid": 4711, "tid": 0, "args": {"labels": "CPU"}},
            {"ph": "M", "name": "thread_name", "pid": 4711, "tid": 4711, "args": {"name": f"thread {text}"}},
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": text,
                "args": {"a": [text, [text]], text: 1},
                **common,
            },
            {"ph": "X", "cat": text, "name": "aten::mm", "args": {"deep": {"b": {"c": text}}}, **common},
            {"ph": "X", "cat": "python_function", "name": f"{text}(12): main", "args": {}, **common},
        ],
    }


def memory_of(text: str) -> dict[str, object]:
    frames = [
        {"file": text, "line": 1, "function": f"f {text}"},
        {"file": "a.py", "line": 1, "function": "g"},
    ]
    return {"schema": 1, "events": [[0, "alloc", text]], "frames": frames, "settings": {"a": text}}


@planted
@pytest.mark.parametrize("make", [trace_of, memory_of], ids=["trace", "memory"])
def test_in_recordings_of_pytorch(tmp_path: Path, make: Callable[[str], object], text: str) -> None:
    path = tmp_path / "raw.json"
    path.write_text(json.dumps(make(text)))
    assert privacy.find(scan.texts_of(path)) != []
    made = torch_profile.scrub_file(path)
    assert privacy.find(scan.texts_of(made)) == []
    assert "77" not in made.read_text() and "Doe" not in made.read_text()


@planted
def test_in_records(captured: Lab, tmp_path: Path, text: str) -> None:
    record = {"program": "p", "results": {"a": [text]}, "checks": {}, "parameters": {"deep": {text: text}}}
    for encoding in ("utf-8", "utf-16"):
        refused(captured, "beta", "record.json", json.dumps(record).encode(encoding))
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record))
    bench.check_record(path, "p")
    assert privacy.find(scan.texts_of(path)) == [] and "77" not in path.read_text()


@planted
def test_in_claims_machines_and_titles(captured: Lab, text: str) -> None:
    folder = captured.sets / "mine"
    (folder / "claims.json").write_text(json.dumps({"page": {"claim": text}}))
    assert {(f.where, f.kind) for f in found()} == {("claims.json", "private")}
    (folder / "claims.json").unlink()
    for edit in (
        lambda manifest: manifest["machines"]["m1"].update(board=text),
        lambda manifest: manifest["experiments"]["beta"].update(title=text),
        lambda manifest: manifest["experiments"]["beta"]["runs"]["record"].update(warnings=[text]),
    ):
        manifest = json.loads((folder / "manifest.json").read_text())
        edit(manifest)
        before = (folder / "manifest.json").read_text()
        (folder / "manifest.json").write_text(json.dumps(manifest))
        assert {(f.where, f.kind) for f in found()} == {("manifest.json", "private")}
        (folder / "manifest.json").write_text(before)
        other = rewrite(captured.archive, lambda members, edit=edit: edit_manifest(members, edit))
        with pytest.raises(InputError, match=r"manifest\.json holds something private"):
            archive.add([other])


def test_in_a_report_of_nsight_compute(tmp_path: Path) -> None:
    data = ncu.path("basic.ncu-rep").read_bytes()
    results = [data[slice(*result)] for block in wire.blocks(data) for result in block.results]
    leaves = dict.fromkeys(leaf for result in results for leaf in wire.leaves(result, set()))
    victims = [leaf for leaf in leaves if len(leaf) > 80 and wire.is_text(leaf) and b"<" not in leaf]
    laid = [text.ljust(len(victim)) for text, victim in zip(PLANTED.values(), victims, strict=False)]
    assert len(laid) == len(PLANTED)
    for victim, text in zip(victims, laid, strict=False):
        data = data.replace(victim, text.encode())
    source = tmp_path / "raw.ncu-rep"
    source.write_bytes(data)
    assert set(laid) <= set(scan.texts_of(source)) and all(privacy.find([text]) for text in laid)
    made = ncu_scrub.scrub_file(source)
    texts = list(scan.texts_of(made))
    assert privacy.find(texts) == [] and not set(laid) & set(texts)
    assert made.stat().st_size == source.stat().st_size
    assert len(open_report(made).list) == len(ncu.opened("basic").list)


def test_a_pickle_for_claims(captured: Lab) -> None:
    (captured.sets / "mine/claims.json").write_bytes(b"\x80\x04N.")
    assert [(f.where, f.text.split(":")[0]) for f in found()] == [("claims.json", "a pickle or an archive")]


def test_a_key_that_is_there_twice(captured: Lab) -> None:
    refused(captured, "beta", "record.json", b'{"a": "/home/me/x", "a": 1}')


def test_names_that_the_report_states_go_and_common_words_stay(tmp_path: Path) -> None:
    raw = fakes.private_export(tmp_path / "raw.sqlite")
    data = changed(
        raw.read_bytes(),
        ("UPDATE NVTX_EVENTS SET text = ? WHERE text = 'inside'", f"someone's step on {fakes.HOST} by root"),
    )
    raw.write_bytes(data)
    clean = scrub_file(raw)
    texts = list(scan.texts_of(clean))
    assert "[name]'s step on [name] by root" in texts
    assert not [text for text in texts if "someone" in text.lower()]
    trace = {**trace_of("x"), "host_name": "gpu-box-5", "traceName": "/home/jdoe/t.json"}
    trace["traceEvents"][3]["name"] = "step of JDoe on gpu-box-5"  # type: ignore[index]
    path = tmp_path / "raw.json"
    path.write_text(json.dumps(trace))
    assert "step of [name] on [name]" in torch_profile.scrub_file(path).read_text()


def test_names_can_be_given(captured: Lab, tmp_path: Path) -> None:
    raw = e.make_export(tmp_path / "raw.sqlite", nvtx=[e.push_pop(1, 2, "the Zaphod run")])
    assert "the [name] run" in list(scan.texts_of(scrub_file(raw, also=("zaphod",))))
    put(captured, "beta", "record.json", b'{"a": "the Zaphod run"}')
    assert found() == []
    said = [str(finding) for finding in verify.verify("mine", also=("zaphod",))]
    assert said == ["beta/record.json: private: the name of a host or user (Zaphod)"]
    with pytest.raises(InputError, match=r"holds something private: the name of a host or user \(lpha\)"):
        archive.add(
            [rewrite(captured.archive, lambda m: replace(m, "beta/record.json", b'["lpha"]'))], also=("lpha",)
        )


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (getpass, "getuser", lambda: "zaphod"),
        (socket, "gethostname", lambda: "zaphod.example"),
        (Path, "home", lambda: Path("/h/zaphod")),
    ],
)
def test_names_of_this_machine_are_looked_for_unless_the_lab_uses_them(
    captured: Lab, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, value: Callable[[], object]
) -> None:
    put(captured, "beta", "record.json", b'["the Zaphod run of the baseline"]')
    other = rewrite(captured.archive, lambda m: replace(m, "beta/record.json", b'["on zaphod"]'))
    scan.own_names.cache_clear()
    try:
        assert found() == []
        monkeypatch.setattr(owner, name, value)
        scan.own_names.cache_clear()
        said = "private: the name of a host or user (Zaphod)"
        assert [str(finding) for finding in found()] == [f"beta/record.json: {said}"]
        with pytest.raises(InputError, match=r"something private: the name of a host or user \(zaphod\)"):
            archive.add([other])
        monkeypatch.setattr(getpass, "getuser", lambda: "baseline")
        scan.own_names.cache_clear()
        assert not any("baseline" in finding.text for finding in found())
    finally:
        scan.own_names.cache_clear()


def test_who_has_no_home_has_no_name_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", none)
    monkeypatch.setattr(getpass, "getuser", lambda: "zaphod")
    assert "zaphod" in privacy.own_names([]) and "zaphod" not in privacy.own_names(["Zaphod's"])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("at 77:00.0", "the id of a device? (77:00.0)"),
        ("Hostname: fatbox", "a host's or user's name? (Hostname: fatbox)"),
        ("staged on /scratch3", "a folder of the system? (/scratch3)"),
        ("from https://git.acme.dev/x", "a web address? (https://git.acme.dev)"),
        ("job 01234567-89ab-cdef-0123-456789abcdef", "an id? (01234567-89ab-cdef-0123-456789abcdef)"),
        ("ran on dgx-017", "a host's name? (dgx-017)"),
        ("with MY_CLUSTER=zone-a", "a variable? (MY_CLUSTER=zone-a)"),
    ],
)
def test_what_cannot_be_told_is_listed_for_people_to_judge(captured: Lab, text: str, kind: str) -> None:
    put(captured, "beta", "record.json", json.dumps([text]).encode())
    doubts: list[str] = []
    assert verify.verify("mine", review=doubts) == [] and doubts == [f"beta/record.json: {kind}"]
    other = rewrite(captured.archive, lambda m: replace(m, "beta/record.json", json.dumps([text]).encode()))
    before, doubts = captured.tree(), []
    assert archive.add([other], review=doubts) == [] and doubts == [f"beta/record.json: {kind}"]
    assert captured.tree() == before


@pytest.mark.parametrize(
    "text",
    [
        "torch/nn/modules/module.py(1779): _call_impl",
        "site-packages/torch/nn/modules/linear.py",
        "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4>(T1::Params)",
        "void at::native::(anonymous namespace)::f<at::BinaryFunctor<float, a/b>>(std::array<char*, 3ul>)",
        "std::vector<int>::~vector() and T::~T()",
        "y = x & ~mask; z = x + ~mask; // not a/b/c",
        "template <class T> void operator/(T, T) [with T = ns::a/b]",
        "memcpy@@GLIBC_2.14 memcpy@plt cudaMalloc@libcudart.so.13",
        "version 10.0.0.1, CUDA 12.9.1.4, cuDNN-9.1.0.70, libcublas.so.12.9.1.4, v1.2.3.4, torch==2.1.0.1",
        "2025.3.2.0 1.2.3 10.0.1 1.2.3.4.5",
        "listening on 127.0.0.1:6000 and 0.0.0.0",
        "12:30:15.5 2026-11-21T09:55:25 00:01:02",
        "L1/TEX Hit Rate, and/or, 3/4, a / b, bytes/s",
        "https://docs.nvidia.com/cuda/index.html https://pytorch.org/a/b",
        '{"home": "x", "path": "a/b", "user_annotation": "step", "user": null, "hostname": "localhost"}',
        "<built-in method linear of type object at 0x7f1234567890>",
        "~5 us, ~1.5x, about ~ 3",
        "[removed] HOME=[removed] [address]",
        "@url:Guide:https://docs.nvidia.com/a @source:loop.cuh:12, line 3@",
    ],
)
def test_harmless_texts_stay_as_they_are(text: str) -> None:
    assert privacy.find([text]) == [] and privacy.reduce(text) == text


def test_what_is_repeated_possessively_does_not_look_around() -> None:
    """CPython 3.11.2 takes what the last try looked at, too: of `"user": "x"` the closing quote."""

    def inside(one: object) -> list[object]:
        parts = one if isinstance(one, tuple | list | sre.SubPattern) else ()
        return [one, *(deeper for part in parts for deeper in inside(part))]

    around = sre.ASSERT, sre.ASSERT_NOT  # type: ignore[attr-defined]
    repeated = 0
    for rule in privacy._RULES:
        for node in inside(sre.parse(rule.pattern.pattern, rule.pattern.flags & ~re.UNICODE)):
            if isinstance(node, tuple) and node[0] is sre.POSSESSIVE_REPEAT:  # type: ignore[attr-defined]
                repeated += 1
                assert not [one for one in inside(node[1]) if any(one is code for code in around)], rule
    assert repeated


@planted
def test_what_sql_calls_harmless_is_not_reduced(text: str) -> None:
    names = ("zaphod's", "gpu-box")
    with closing(sqlite3.connect(":memory:")) as db:
        query = f"SELECT {privacy.harmless_in_sql('value', names)} FROM (SELECT ? AS value)"
        for one in (text, f"k\0{text}", f"k\n{text}", "the ZAPHOD'S run", "\u017faphod"):
            assert db.execute(query, (one,)).fetchone() == (0,), one
        for one in ("", "k1(int)", "[k]^", "zaphod"):
            assert db.execute(query, (one,)).fetchone() == (1,) and privacy.reduce(one, names) == one


@planted
def test_what_was_reduced_is_not_found_again(text: str) -> None:
    for around in (text, f"'{text}'", f"({text})", f"a {text}, b", f'{{"key": "{text}"}}', f"a\n{text}\tb"):
        assert privacy.find([around]) != [], around
        for clean in (privacy.reduce(around), privacy.mask(around)):
            assert privacy.find([clean]) == [], clean
        assert len(privacy.mask(around)) == len(around)


@pytest.mark.parametrize(
    "unit",
    [
        "1",
        "a",
        "A_",
        "a.",
        "a-",
        "/a",
        "a/",
        " /",
        "/a b ",
        "\\",
        "~",
        "~a ",
        "a@",
        "ab:",
        "::",
        "a:/",
        "1.1.",
        "C:\\a ",
    ]
    + [
        "HOME=",
        'HOME="',
        "TOKEN",
        "http://",
        "file:",
        "/home/",
        "(",
        "\\\\a\\",
        "/labcode/",
        "GPU-",
        "login",
    ],
)
def test_time_grows_with_the_length_of_a_text(unit: str) -> None:
    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        with processor_time() as spent:
            privacy.find([text], ("someone",))
            privacy.review([text])
            privacy.reduce(text, ("someone",))
            privacy.reduce_file(f"/{text}")
            privacy.stated_names([text], "a text")
        return spent()

    assert seconds(24_000) < 8 * min(seconds(6_000), seconds(6_001)) + 0.1


def test_processes_have_new_numbers_in_their_order_in_all_tables(tmp_path: Path) -> None:
    raw, clean = tmp_path / "raw.sqlite", tmp_path / "clean.sqlite"
    e.make_export(
        raw,
        kernels=[e.kernel(10, 20, "k", pid=pid, correlation=pid) for pid in (4242, 777)],
        api=[
            e.call(1, 2, pid=pid, tid=tid, correlation=pid)
            for pid, tid in ((4242, 4250), (4242, 4242), (777, 777))
        ],
        nvtx=[e.push_pop(1, 9, "step", pid=4242, tid=4242), e.push_pop(1, 9, "step", pid=777, tid=777)],
        threads=[e.thread(4242, 4250, "worker"), e.thread(777, 777, "python3")],
        processes=[e.process(777, "a"), e.process(4242, "b")],
        diagnostics=[e.diagnostic("see pid_4242_stdout.log, 777 events", pid=4242)],
    )
    with closing(sqlite3.connect(raw)) as db:
        db.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_TIME_UTC', '2026-11-21T09:55:25')")
        db.commit()
    assert scrub_export(raw, clean).pids == (100_000, 100_001)
    with closing(sqlite3.connect(clean)) as db:
        for table, column in (("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"), ("NVTX_EVENTS", "globalTid")):
            pids = {row[0] for row in db.execute(f"SELECT {column} >> 24 & 0xFFFFFF FROM {table}")}
            assert pids == {100_000, 100_001}, table
        threads = "SELECT globalTid >> 24 & 0xFFFFFF, globalTid & 0xFFFFFF FROM"
        calls = db.execute(f"{threads} CUPTI_ACTIVITY_KIND_RUNTIME").fetchall()
        assert sorted(calls) == [(100_000, 100_000), (100_001, 100_001), (100_001, 100_002)]
        assert db.execute(f"{threads} ThreadNames ORDER BY 1").fetchall() == [
            (100_000, 100_000),
            (100_001, 100_002),
        ]
        assert db.execute(
            "SELECT pid, globalPid >> 24 & 0xFFFFFF, name FROM PROCESSES ORDER BY 1"
        ).fetchall() == [
            (100_000, 100_000, "a"),
            (100_001, 100_001, "b"),
        ]
        assert db.execute("SELECT text FROM DIAGNOSTIC_EVENT").fetchall() == [
            ("see pid_100001_stdout.log, 777 events",)
        ]
        when = "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_TIME_UTC'"
        assert db.execute(when).fetchall() == [("2026-11-21",)]
    again = tmp_path / "again.sqlite"
    scrub_export(clean, again)
    with closing(sqlite3.connect(clean)) as one, closing(sqlite3.connect(again)) as two:
        assert list(one.iterdump()) == list(two.iterdump())


@pytest.mark.parametrize(
    "text",
    [
        *("cwd secretword", "cwd: secretword", '"cwd": "secret word"', "CWD=secretword", "pwd secretword"),
        *("cwd  secretword", "cwd\tsecretword", "cwd is secretword", "cwd -> secretword", "(cwd secretword)"),
        *("workdir: secretword", "working_directory = 'secret word'", "work_dir=>secretword"),
    ],
)
def test_the_folder_that_a_program_ran_in_is_private(text: str) -> None:
    for clean in (privacy.reduce(text), privacy.mask(text)):
        assert "secret" not in clean and privacy.find([clean]) == []
    assert privacy.find([text]) != [] and privacy.find(["getcwd returned 0", "cwd"]) == []
