"""`labcode report` as Markdown and JSON, of one file and of several; files that are not of one run."""

import json
from pathlib import Path

import pytest

from labcode import store
from labcode.reports.power.schema import write_document
from labcode.verbs.report.document import readable
from labcode.verbs.report.gather import gather
from labcode.verbs.report.writing import BRIEF, brief
from tests.analysis.timeline.test_iterations import steps
from tests.support import exports as x
from tests.support import power, traces
from tests.support.command import labcode
from tests.support.gpu_metrics import add_metrics

HOSTILE = "<script>alert(1)</script>|`x`"


def shipped(experiment: str, file: str) -> Path:
    return store.sets_root() / store.SHIPPED_SET / experiment / file


def refused(*words: object) -> str:
    done = labcode("report", *words)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    return done.stderr


def test_a_capture_in_json_holds_what_the_page_shows(tmp_path: Path) -> None:
    file = x.make_export(tmp_path / "a.sqlite", gpus=[x.gpu()], **steps([20, 20, 20, 20, 90, 20]))
    done = labcode("report", file, "--format", "json")
    said = json.loads(done.stdout)
    assert done.returncode == 0 and said["files"][0]["GPU"] == "NVIDIA H200"
    assert said["gpu_time"] == [
        {"device": 0, "computing_ns": 40_000, "communication_ns": 0, "copies_ns": 0, "idle_ns": 130_000}
    ]
    assert sum(one["GPU 0_ns"] for one in said["ledger"]) == pytest.approx(170_000 / 5)
    assert [row["duration_ns"] for row in said["iterations"]["rows"]] == [20_000] * 4 + [90_000]
    found = [one for one in said["verdicts"] if one["status"] == "found"]
    assert {"idle-gaps", "low-utilization"} <= {one["rule"] for one in found} and found[0]["book"]
    gains = [one["gain"] for one in found if one["gain"] is not None]
    assert gains == sorted(gains, reverse=True)
    assert said["sections"]["ranges"][0]["rows"][0]["range"] == "step"


def test_ten_lines_say_where_an_iteration_goes_and_what_to_change_first() -> None:
    with gather([shipped("timeline_basics", "baseline.nsys.xz")]) as document:
        lines = brief(document)
    assert 4 < len(lines) <= BRIEF and lines[0].startswith("Judged: ")
    shares = [float(line.split("%")[0].split()[-1]) for line in lines[1:-2]]
    assert shares == sorted(shares, reverse=True) and sum(shares) > 90
    assert lines[-2].startswith("[high] ") and lines[-1].startswith("  to gain: ")


def test_markdown_for_a_pull_request_begins_with_what_changed(tmp_path: Path) -> None:
    before = x.make_export(tmp_path / "old.sqlite", **steps([20] * 9))
    after = x.make_export(tmp_path / "new.sqlite", **steps([40] * 9, name=HOSTILE + "step {}"))
    done = labcode("report", after, "--before", before, "--title", HOSTILE)
    assert done.returncode == 0 and HOSTILE not in done.stdout and "&lt;script&gt;" in done.stdout
    assert done.stdout.index("## new.sqlite after old.sqlite") < done.stdout.index("## Where the time goes")
    assert "<details><summary>Kernels</summary>" in done.stdout and "](" in done.stdout
    written = labcode("report", after, "-o", tmp_path / "a.md", "--book", "https://example.org/lab/")
    assert written.stdout == f"{tmp_path / 'a.md'}\n"
    assert "(https://example.org/lab/nsys/" in (tmp_path / "a.md").read_text(encoding="utf-8")


def test_what_is_undecided_is_told_after_what_changed(tmp_path: Path) -> None:
    wild = [500, 2000, 700, 1600, 900, 1300, 1100, 600]
    files = []
    for run, more in enumerate((0, 150)):
        kernels = [x.kernel(n * 10_000, n * 10_000 + ns + more, "wild") for n, ns in enumerate(wild)]
        kernels += [x.kernel(n * 10_000 + 5_000, n * 10_000 + 5_100, "still") for n in range(8)]
        kernels += [x.kernel(n * 10_000 + 6_000, n * 10_000 + 6_010 + more // 15, "grew") for n in range(8)]
        files.append(x.make_export(tmp_path / f"{run}.sqlite", kernels=kernels))
    with gather(files[1:], before=files[:1]) as document:
        (table,) = [one for one in document.changes[0].tables if one.title == "Kernels"]
    assert table.rows[["Verdict", "Name"]].to_numpy().tolist() == [["slower", "grew"], ["undecided", "wild"]]
    assert table.count == 2 and table.note == "1 did not change; 1 undecided: their intervals are too wide"


def test_a_capture_and_its_power_log_are_joined_on_ranges() -> None:
    files = [shipped("energy_ranges", name) for name in ("phases.power.json.xz", "phases.nsys.xz")]
    with gather(files) as document:
        assert document.title == "phases.nsys.xz + phases.power.json.xz"
        assert [one.id for one in document.sections][:: len(document.sections) - 1] == ["joined", "energy"]
        table = document.sections[0].tables[0].rows.set_index("range")
        assert {"matmul", "copy", "softmax"} <= set(table.index)
        assert 1500 < table["energy_j"]["matmul"] < 1900 and table["count"]["matmul"] == 2


def test_a_trace_beside_a_capture_is_joined_on_ranges_and_judged_once(tmp_path: Path) -> None:
    trace = traces.Trace()
    for number in range(3):
        at = 1_000_000 * number
        trace.annotation(f"step {number}", at, at + 900_000)
        call = trace.call("cudaLaunchKernel", at + 1_000, at + 2_000)
        trace.kernel("k(int)", at + 5_000, at + 405_000, call)
    files = [
        x.make_export(tmp_path / "a.sqlite", **steps([20] * 6)),
        trace.write(tmp_path / "run.trace.json"),
    ]
    with gather(files) as document:
        (table,) = document.sections[0].tables
        assert table.rows.to_dict("records") == [
            {
                "range": "step",
                "count": 6,
                "cpu_ns": 6 * 19_900,
                "busy_ns": 6 * 8_000,
                "trace_cpu_ns": 3 * 900_000,
                "trace_busy_ns": 3 * 400_000,
            }
        ]
        judged = [one.verdict.rule for one in (*document.found, *document.others)]
        assert len(judged) == len(set(judged))


def test_counters_stand_where_they_were_sampled_those_that_verdicts_lean_on_first(tmp_path: Path) -> None:
    plain = x.make_export(tmp_path / "a.sqlite", **steps([20] * 4))
    with gather([plain]) as document:
        assert "counters" not in [one.id for one in document.sections]
    until = 80_000
    samples = {
        "GPC": [(time, 1980) for time in range(1_000, until, 1_000)],
        "SMs Active": [(time, 4 * (time % 2_000 > 0)) for time in range(1_000, until, 1_000)],
        "SM Issue": [(time, 3) for time in range(1_000, until, 1_000)],
        "DRAM Read": [(time, 0) for time in range(1_000, until, 1_000)],
    }
    with gather([add_metrics(plain, samples)]) as document:
        section = next(one for one in document.sections if one.id == "counters")
        (shown,) = section.tables
        rows = shown.rows.set_index("metric")
        assert section.book == "nsys/gpu-metrics" and shown.note == "labcode stats -r gpu_metrics_sum"
        assert rows.index.tolist() == [
            "SMs Active [Throughput %]",
            "SM Issue [Throughput %]",
        ]
        assert rows["verdicts"].tolist() == ["unused-multiprocessors", ""]
        assert rows[["p25", "median", "p75"]].iloc[0].tolist() == [0, 4, 4]


def test_a_trace_shows_its_critical_path_and_its_counters(tmp_path: Path) -> None:
    trace = traces.Trace()
    trace.call("cudaFree", 0, 10_000)
    call = trace.call("cudaLaunchKernel", 10_000, 12_000)
    trace.kernel("k(int)", 15_000, 95_000, call)
    trace.call("cudaDeviceSynchronize", 20_000, 100_000)
    file = trace.write(tmp_path / "run.trace.json")
    with gather([file]) as document:
        sections = {one.id: one for one in document.sections}
        kinds, names = (one.rows for one in sections["path"].tables)
        assert kinds["kind"].iloc[0] == "kernel" and kinds["share"].iloc[0] == pytest.approx(0.8)
        assert kinds["times as fast at most"].iloc[0] == pytest.approx(5)
        assert names["name"].iloc[0] == "k" and sections["path"].book == "pytorch/critical-path"
        assert sections["counters"].tables[0].title == "How many operations wait in each stream"
    said = labcode("report", file, "--book", "https://example.org/lab").stdout
    assert "In the book: [pytorch/critical-path](https://example.org/lab/pytorch/critical-path.html)." in said
    assert "ritical path of rank" not in said  # it says what the GPU's own time says
    hidden = traces.Trace()
    for at in range(0, 1_000_000, 100_000):
        hidden.op("aten::mul", at, at + 98_000)
        hidden.launch("k(int)", (at + 5_000, at + 15_000), (at + 20_000, at + 60_000))
    file = hidden.write(tmp_path / "hidden.trace.json")
    line = "ritical path of rank 0: 0% computing, while GPU 0 computes for 40% of that time"
    assert f"C{line}" in labcode("report", file).stdout
    for name in ("critical_path", "critical_path_sum"):
        assert f"note: c{line}" in labcode("stats", file, "-r", name, "-f", "csv").stderr
    both = labcode("stats", file, "-r", "critical_path,critical_path_sum", "-f", "json").stderr
    assert both.count(line) == 1
    alone = traces.Trace()
    alone.op("aten::add", 0, 1_000)
    with gather([alone.write(tmp_path / "cpu.trace.json")]) as document:  # nothing ran on a GPU
        assert "path" not in [one.id for one in document.sections]


def test_kernels_of_nsight_compute_are_found_in_the_run(tmp_path: Path) -> None:
    report = shipped("ncu_softmax", "exam_steps.ncu-rep.xz")
    with gather([report]) as document:
        one = document.opened["ncu"][0].list[0]
        assert document.found and all(found.of for found in document.found)
    rows = steps([20] * 4)
    rows["kernels"] = [
        {
            **row,
            **x.kernel(row["start"], row["end"], f"void lab::{one.function}<float>(int)", correlation=i + 1),
        }
        for i, row in enumerate(rows["kernels"])
    ]
    run = x.make_export(tmp_path / "a.sqlite", gpus=[x.gpu()], **rows)
    with gather([run, report]) as document:
        (table,) = document.sections[0].tables
        first = table.rows.iloc[0]
        assert (first["kernel"], first["in_run"], first["share"], first["range"]) == (
            one.function,
            4,
            1.0,
            "step",
        )
        assert 0 <= first["gain_of_run_share"] <= 1


@pytest.mark.parametrize("kind", ["ncu", "power"])
def test_other_kinds_are_compared_too(kind: str) -> None:
    names = {
        "ncu": ("ncu_softmax", "exam_steps.ncu-rep.xz"),
        "power": ("energy_ranges", "phases.power.json.xz"),
    }
    file = shipped(*names[kind])
    with gather([file], before=[file]) as document:
        assert document.changes[0].before == file.name and document.changes[0].tables


def test_what_does_not_belong_together_is_refused_with_the_reason(tmp_path: Path) -> None:
    one = x.make_export(tmp_path / "a.sqlite", gpus=[x.gpu()], **steps([20] * 4))
    other = x.make_export(tmp_path / "b.sqlite", gpus=[x.gpu()], **steps([20] * 4))
    assert f"{other}: a capture of Nsight Systems, as {one} is; a report has one of them" in refused(
        one, other
    )
    assert f"{one}: named twice; name each file once" in refused(one, one)
    log = tmp_path / "a.power.json"
    write_document(power.document(power.device(power.steady())), log)
    assert f"{log}: is of NVIDIA H100, but {one} of NVIDIA H200: give the files of one run" in refused(
        log, one
    )
    trace = traces.training(tmp_path)[0]
    plain = x.make_export(tmp_path / "c.sqlite", **steps([20] * 4))
    assert f"{trace}: has no kernel in common with {plain} (there k, here" in refused(trace, plain)
    ncu = shipped("ncu_softmax", "exam_steps.ncu-rep.xz")
    assert f"{ncu}: a report of Nsight Compute, and none of the other files is one" in refused(
        one, "--before", ncu
    )


def test_bad_use_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    file = x.make_export(tmp_path / "a.sqlite", **steps([20] * 4))
    assert "report: name the files of a run" in refused()
    assert "X.pdf: no kind of report; choose html, md or json" in refused(file, "-o", tmp_path / "X.pdf")
    assert "--format csv: no kind of report" in refused(file, "--format", "csv")
    assert "name the page to write with -o report.html" in refused(file, "--format", "html")
    assert "is the input itself; choose another name" in refused(file, "--format", "md", "-o", file)
    assert "no such file" in refused(tmp_path / "none.sqlite", "-o", tmp_path / "a.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sqlite"]


def test_cells_have_their_units() -> None:
    import pandas as pd

    rows = pd.DataFrame(
        {"Total Time (ns)": [1_500_000], "busy_share": [0.5], "bytes": [2_000_000.0], "x": [float("nan")]}
    )
    heads, numeric, cells = readable(rows)
    assert heads == ["Total Time", "busy share", "bytes", "x"] and all(numeric)
    assert cells == [["1.5 ms", "50.0 %", "2 MB", ""]]
    roof = pd.DataFrame({"bytes_per_s": [1.2e11], "flops_per_s": [3e12], "share_of_roof": [0.0625]})
    assert readable(roof)[0::2] == (
        ["bytes", "flops per s", "share of roof"],
        [["120 GB/s", "3 TFLOP/s", "6.2 %"]],
    )


@pytest.mark.parametrize(
    ("experiment", "name"),
    [("lm_small", "train.nsys.xz"), ("torch_profiler", "baseline.trace.json.gz")],
)
def test_of_a_language_model_markdown_says_how_much_is_matmuls_and_attention(
    experiment: str, name: str
) -> None:
    done = labcode("report", shipped(experiment, name), "--format", "md")
    section = done.stdout.split("Model: matmuls, attention, the rest")[1].split("</details>")[0]
    heads, _, *rows = [line for line in section.splitlines() if line.startswith("|")]
    assert done.returncode == 0 and "lm/kernels" in section
    assert heads == "| pass | time | matmul share | attention share | other share | operations |"
    assert [row.split(" | ")[0] for row in rows][-4:] == ["| forward", "| backward", "| optimizer", "| all"]
    for row in rows:
        shares = [float(cell.removesuffix(" %")) for cell in row.split(" | ")[2:5]]
        assert sum(shares) == pytest.approx(100, abs=0.2)


def test_of_another_program_it_does_not() -> None:
    done = labcode("report", shipped("timeline_basics", "baseline.nsys.xz"), "--format", "md")
    assert done.returncode == 0 and "Model: matmuls" not in done.stdout
