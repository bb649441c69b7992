"""Scrubbed reports: nothing of the machine is left, and nothing else is lost."""

import lzma
import re
from pathlib import Path

import pytest

from labcode.analysis.stats.ncu_pages import details_page, raw_page
from labcode.capture import ncu_scrub, privacy, scan
from labcode.errors import InputError
from labcode.reports.ncu import wire as ncu_wire
from labcode.reports.ncu.report import open_report
from tests.support import ncu

HOST, USER = "gpu-box-17", "jdoe"
PROGRAM = f"/home/{USER}/secret/project/k"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_CACHE", str(tmp_path / "cache"))


def _home(match: re.Match[bytes]) -> bytes:
    size = len(match.group())
    return (b"/home/jdoe/" + b"d" * size)[: size - 1] + b"/"


def dirty(data: bytes) -> bytes:
    """The report as a machine would have written it: host, user, addresses, program and source paths."""
    out = bytearray(data[: 8 + int.from_bytes(data[4:8], "little")])
    for block in ncu_wire.blocks(data):
        fields = []
        for number, kind, value in block.header:
            if number == ncu_wire.PROCESS and isinstance(value, bytes):
                inner = [f for f in ncu_wire.fields(value) if f[0] not in (2, 3)]
                inner += [(2, 2, HOST.encode()), (3, 2, PROGRAM.encode())]
                value = b"".join(ncu_wire.put_field(*field) for field in inner)
            if number == ncu_wire.SESSION and isinstance(value, bytes):
                system = ncu_wire.put_field(1, 2, b"Linux") + ncu_wire.put_field(5, 2, HOST.encode())
                system += ncu_wire.put_field(7, 2, ncu_wire.put_field(1, 2, b"192.168.7.7"))
                value += ncu_wire.put_field(ncu_wire.SYSTEM, 2, system)
                value += ncu_wire.put_field(ncu_wire.RESOURCE, 2, b"HOME=/home/jdoe")
            fields.append(ncu_wire.put_field(number, kind, value))
        header = b"".join(fields)
        out += len(header).to_bytes(4, "little") + header
        for begin, end in (*block.sources, *block.results):
            entry = re.sub(rb"(?:\./){6,}", _home, data[begin:end])
            out += len(entry).to_bytes(4, "little") + entry
    return bytes(out)


def test_nothing_private_is_left_and_nothing_else_lost(tmp_path: Path) -> None:
    source, target = tmp_path / "in.ncu-rep", tmp_path / "out.ncu-rep.xz"
    made = dirty(ncu.path("basic.ncu-rep").read_bytes())
    assert HOST.encode() in made and b"/home/jdoe" in made and b"192.168.7.7" in made
    source.write_bytes(made)
    assert ncu_scrub.scrub_file(source, target) == target
    report = open_report(target)
    clean = ncu_scrub.unpacked(target).read_bytes()
    for word in (HOST, USER, "192.168.7.7", "secret"):
        assert word.encode() not in clean, word
    assert privacy.find(scan.ncu_texts(clean)) == []
    before = ncu.opened("basic")
    assert raw_page(report).equals(raw_page(before)) and details_page(report).equals(details_page(before))
    assert report.source(0).equals(before.source(0))
    assert (
        report.product_version == before.product_version
        and report.list[0].device() == before.list[0].device()
    )


def test_scrubbing_again_changes_nothing() -> None:
    once = ncu_scrub.scrub_bytes(ncu.path("few.ncu-rep").read_bytes())
    assert ncu_scrub.scrub_bytes(once) == once


def test_processes_get_neutral_numbers_and_sessions_a_day() -> None:
    data = ncu.path("few.ncu-rep").read_bytes()

    def stated(report: bytes) -> tuple[set[int], set[int], list[int]]:
        """Process ids in headers, in results, and times of sessions."""
        blocks = list(ncu_wire.blocks(report))
        results = (report[begin:end] for block in blocks for begin, end in block.results)
        sessions = [v for block in blocks for n, _, v in block.header if n == ncu_wire.SESSION]
        times = [ncu_wire.number_of(ncu_wire.dict_of(v), 2) for v in sessions if isinstance(v, bytes)]
        return (
            {block.process[0] for block in blocks if block.process[0]},
            {ncu_wire.number_of(ncu_wire.dict_of(result), 1) for result in results},
            [time for time in times if time],
        )

    (pid,), (same,), times = stated(data)
    assert pid == same and any(time % 86_400 for time in times)
    clean = ncu_scrub.scrub_bytes(data)
    found, in_results, rounded = stated(clean)
    assert len(clean) == len(data) and found == in_results and pid not in found
    assert found <= set(ncu_scrub._FIRST_NUMBERS)
    assert rounded == [time // 86_400 * 86_400 for time in times]


def test_folders_keep_their_length() -> None:
    entry = b"x/home/me/dir/k.cu\0 /home/me/dir\0/tmp/tmpxft_1/k.ii\0/h/x/y"
    clean = ncu_scrub._without_folders(entry, [b"/home/me/dir"])
    assert len(clean) == len(entry)
    assert b"home" not in clean and b"tmpxft_1" not in clean and b"k.cu" in clean and b"k.ii" in clean
    assert b"/h/x/y" in clean  # no root of paths: it may be code


def test_the_name_of_the_copy(tmp_path: Path) -> None:
    source = tmp_path / "few.ncu-rep"
    source.write_bytes(ncu.path("few.ncu-rep").read_bytes())
    assert ncu_scrub.scrub_file(source).name == "few.scrubbed.ncu-rep"
    with pytest.raises(InputError, match="is the input itself"):
        ncu_scrub.scrub_file(source, source)
    with pytest.raises(InputError, match="no such file"):
        ncu_scrub.scrub_file(tmp_path / "none.ncu-rep")


def test_what_it_does_not_know_is_refused(tmp_path: Path) -> None:
    data = ncu.path("few.ncu-rep").read_bytes()
    source = tmp_path / "few.ncu-rep"
    source.write_bytes(data.replace(b"_Z7stridedPKfPfjj", b"a@example.com\0\0\0\0"))
    with pytest.raises(InputError, match="something private is left after scrubbing, nothing was written"):
        ncu_scrub.scrub_file(source, tmp_path / "out.ncu-rep")
    assert not (tmp_path / "out.ncu-rep").exists()


def test_a_truncated_report(tmp_path: Path) -> None:
    source = tmp_path / "few.ncu-rep"
    source.write_bytes(ncu.path("few.ncu-rep").read_bytes()[:-20])
    with pytest.raises(InputError, match="truncated or damaged"):
        ncu_scrub.scrub_file(source)


def _source(*files: tuple[bytes, bytes]) -> bytes:
    """A source entry with imported files: (name, text)."""
    inner = b"".join(
        ncu_wire.put_field(1, 2, ncu_wire.put_field(1, 2, name) + ncu_wire.put_field(2, 2, text))
        for name, text in files
    )
    return ncu_wire.put_field(1, 0, 7) + ncu_wire.put_field(8, 2, inner)


def _texts(source: bytes) -> list[bytes]:
    return [
        text
        for number, _, value in ncu_wire.fields(source)
        if number == 8 and isinstance(value, bytes)
        for _, _, file in ncu_wire.fields(value)
        if isinstance(file, bytes) and isinstance(text := ncu_wire.dict_of(file)[2], bytes)
    ]


def test_of_imported_sources_only_the_readers_own_stay() -> None:
    own = b"// mine\n__global__ void work() {}\n"
    cases = (
        (b"/home/me/k.cu", own, own),
        (b"/usr/local/cuda/include/cuda_fp16.hpp", b"int a;\nint b;\n", b"      \n      \n"),
        (b"/home/me/env/lib/python3.12/site-packages/x.h", b"int a;\n", b"      \n"),
        (b"/data/cuda-13.0/include/x.h", b"int a;\n", b"      \n"),
        (b"/home/me/copied.h", b"/* NVIDIA Corporation\n*/", b" " * 21 + b"\n  "),
    )
    before = _source(*(case[:2] for case in cases))
    after = ncu_scrub._without_foreign(before)
    assert len(after) == len(before)
    assert _texts(after) == [case[2] for case in cases]
    assert ncu_scrub._without_foreign(after) == after


def test_the_code_of_nvidias_libraries_is_zeroed() -> None:
    def module(*functions: bytes) -> bytes:
        names = b"".join(
            ncu_wire.put_field(1, 2, ncu_wire.put_field(1, 2, name) + ncu_wire.put_field(2, 0, 1 << 30))
            for name in functions
        )
        return ncu_wire.put_field(4, 2, b"\x7fELF, code") + ncu_wire.put_field(9, 2, names)

    own = module(b"_ZN3lab4gemm5naiveEPKfS2_Pfiiiiii", b"_Z14my_cutlass_gemm")
    assert ncu_scrub._without_foreign(own) == own
    for function in (b"nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT", b"sm90_xmma_gemm_bf16", b"cutlass_80_x"):
        clean = ncu_scrub._without_foreign(module(b"_Z1f", function))
        assert clean == module(b"_Z1f", function).replace(b"\x7fELF, code", bytes(10))


def test_captures_hold_no_source_text_but_the_labs_own() -> None:
    root = Path(__file__).resolve().parents[2]
    own = {path.name for path in (root / "cuda").rglob("*.cu*")}
    seen = 0
    for path in sorted((root / "captures").glob("*/*/*.ncu-rep.xz")):
        data = lzma.decompress(path.read_bytes())
        for block in ncu_wire.blocks(data):
            for begin, end in block.sources:
                for number, _, value in ncu_wire.fields(data[begin:end]):
                    if number != 8 or not isinstance(value, bytes):
                        continue
                    for _, _, file in ncu_wire.fields(value):
                        if isinstance(file, bytes):
                            inner = ncu_wire.dict_of(file)
                            name = ncu_wire.text_of(inner, 1).rpartition("/")[2]
                            seen += 1
                            assert name in own or not ncu_wire.text_of(inner, 2).strip(), f"{path}: {name}"
    assert seen
