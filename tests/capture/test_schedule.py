"""When experiments run: their order, what fits into a budget, who runs beside whom, and what is skipped."""

import importlib.util
import io
import json
import math
import os
import re
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from labcode import store
from labcode.capture import catalogue, runner, schedule, verify
from labcode.capture.catalogue import EXPERIMENTS, Experiment, Run
from labcode.capture.runner import Wishes
from labcode.capture.schedule import Pace, in_order, parse_gpus
from labcode.errors import LabError
from labcode.hardware import driver, needs
from labcode.hardware.driver import CudaDevice, Driver
from labcode.kernels import build
from labcode.show import period
from tests.capture import fakes
from tests.capture.conftest import Lab


def experiment(name: str, **changes: object) -> Experiment:
    plain = Experiment(name, "A measurement", "bench", "program", (Run("record"),), ("program.py",), 1, 120.0)
    return replace(plain, **changes)  # type: ignore[arg-type]


def known(monkeypatch: pytest.MonkeyPatch, *experiments: Experiment, **took: float) -> None:
    """The catalogue holds these experiments, and the shipped set took so many seconds for each."""
    monkeypatch.setattr(catalogue, "EXPERIMENTS", {e.id: e for e in experiments})
    monkeypatch.setattr(schedule, "shipped_seconds", lambda: took)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs and exports write when they begin and end."""
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def events(log: Path) -> list[str]:
    """What was logged, in the order in which it happened."""
    lines = [line.split(" ", 1) for line in log.read_text().splitlines()]
    return [what for _, what in sorted(lines, key=lambda line: float(line[0]))]


def waits(monkeypatch: pytest.MonkeyPatch, **what: tuple[str, int]) -> None:
    """Who is named (a program with the number of its run) goes on after as many lines of the log."""
    named = {who.replace("_", " "): until for who, until in what.items()}
    monkeypatch.setenv("FAKE_WAITS", json.dumps(named))


def seconds(log: Path, what: str) -> float:
    """When something was logged first."""
    return min(
        float(line.split(" ", 1)[0]) for line in log.read_text().splitlines() if line.endswith(f" {what}")
    )


def test_most_pages_first_then_the_shortest_and_the_labs_own_speed_last() -> None:
    took = schedule.shipped_seconds()
    pages = schedule.pages_using()
    order = in_order(EXPERIMENTS.values(), took)
    assert sorted(e.id for e in order) == sorted(EXPERIMENTS)
    own = {"easy_overhead", "meter_overhead", "report_speed", "report_speed_recorded"}
    assert {e.id for e in order[-len(own) :]} == own
    keys = [(-pages[e.id], took.get(e.id, math.inf)) for e in order[: -len(own)]]
    assert keys == sorted(keys) and pages[order[0].id] >= 5


def test_every_experiment_that_the_shipped_set_holds_has_a_time() -> None:
    took = schedule.shipped_seconds()
    assert set(took) == set(store.load_set(store.SHIPPED_SET).experiments) and min(took.values()) > 0


def test_its_times_are_found_where_sets_are_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    took = schedule.shipped_seconds()
    monkeypatch.setenv("LABCODE_SETS", str(tmp_path))
    assert schedule.shipped_seconds() == took
    (tmp_path / store.SHIPPED_SET).mkdir()
    (tmp_path / store.SHIPPED_SET / "manifest.json").write_text("{")
    assert schedule.shipped_seconds() == {}  # whoever opens the set is told that it is damaged


def test_a_budget_without_times_is_told(lab: Lab) -> None:
    lab.capture("beta", wishes=Wishes(budget_s=60.0))
    assert "the shipped set is not here to say what fits into --budget" in lab.printed


def test_this_machines_pace_counts_once_enough_is_known_of_it() -> None:
    slow, fast = experiment("slow"), experiment("fast")
    pace = Pace({"slow": 600.0, "fast": 6.0})
    assert pace.expect([slow, fast]) == 606.0
    pace.learn("fast", 18.0)  # three times as long, but only 6 s of experience
    assert 606 < pace.expect([slow, fast]) < 800
    pace.learn("slow", 1200.0)
    assert pace.expect([fast]) == 18.0  # as long as it took here
    assert pace.expect([experiment("unknown")]) == pytest.approx(303 * 1278 / 666)
    assert Pace({}).expect([slow, fast]) == 0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (98, "98 s"), (120, "2 min"), (3540, "59 min"), (3900, "1 h 05 min")]
)
def test_times_are_said_in_a_few_words(seconds: float, text: str) -> None:
    assert period(seconds) == text


def test_gpus_are_numbers_of_those_that_are_there() -> None:
    assert parse_gpus("0, 1", 2) == (0, 1) and parse_gpus("3", 4) == (3,)
    for text in ("", "0,", "all", "0,0", "²"):
        with pytest.raises(LabError, match="give numbers of GPUs, each once, such as 0,1"):
            parse_gpus(text, 4)
    with pytest.raises(LabError, match="--gpus 0,2: there is no GPU 2 here; programs see GPUs 0 to 1"):
        parse_gpus("0,2", 2)
    with pytest.raises(LabError, match="there is no GPU 1 here; programs see GPU 0 alone"):
        parse_gpus("1", 1)


def test_listing_says_how_long_experiments_took_and_what_remains(
    captured: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "shipped_seconds", lambda: {"alpha": 300.0, "beta": 30.0, "gamma": 90.0})
    stream = io.StringIO()
    catalogue.render(Console(file=stream, width=200), "mine")
    assert "took 5 min on h200" in stream.getvalue() and "took 30 s on h200" in stream.getvalue()
    (line,) = [line for line in stream.getvalue().splitlines() if line.startswith("At the pace of mine ")]
    found = re.fullmatch(
        r".* 3 experiments take (\d+) s, the 2 .* GPU (\d+) s, the 1 that mine lacks (1\d) s", line
    )
    assert found  # of alpha and beta what they took here, of gamma a seventh
    assert 0 <= int(found[2]) < 10 and abs(int(found[1]) - int(found[2]) - int(found[3])) <= 1


def test_a_set_that_is_gone_on_with_knows_the_pace_of_this_machine(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, experiment("one"), experiment("two"), one=600.0, two=600.0)
    assert lab.capture("one") == 0 and "about 10 min" in lab.printed
    assert lab.capture("two") == 0
    assert re.search("1 to capture; about 5[5-9] s", lab.printed)  # 60 s of 660 s


def test_the_start_and_each_experiment_say_what_remains(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, experiment("one"), experiment("two"), one=60.0, two=600.0)
    assert lab.capture() == 0
    assert "2 to capture; about 11 min" in lab.printed
    assert re.search(r"one: filed after \d s; 1 to go, about 5 min", lab.printed)  # the pace: 60 s of 120 s
    assert re.search(r"two: filed after \d s; 0 to go\n", lab.printed)


def test_each_run_says_how_its_seconds_divide(lab: Lab) -> None:
    assert lab.capture("alpha") == 0
    (line,) = [line for line in lab.printed.splitlines() if line.startswith("alpha/baseline: ")]
    for step in ("clean", "under nsys", "of which after the program", "export", "trim", "scrub", "compress"):
        assert f"{step} " in line
    assert line.endswith(" kB")


def test_what_does_not_fit_into_the_budget_is_left_out_and_said(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    long, short, last = experiment("long"), experiment("short"), experiment("last", times=("program.py",))
    known(monkeypatch, long, short, last, long=700.0, short=20.0, last=1.0)
    assert lab.capture(wishes=Wishes(budget_s=100.0)) == 0
    assert set(store.load_set("mine").experiments) == {"short", "last"}
    assert re.search(
        r"longer than all of --budget \(2 min\): long \(about \d+ min\); give more\n", lab.printed
    )
    assert "goes on" not in lab.printed
    assert lab.capture("long", wishes=Wishes(budget_s=100.0)) == 1  # it was asked for by name
    assert lab.capture(wishes=Wishes(budget_s=0.0)) == 0
    assert re.search(r"--budget \(0 s\): long .*, short .*, last .*; give more\n", lab.printed)
    assert lab.capture(only_missing=True) == 0
    assert set(store.load_set("mine").experiments) == {"short", "last", "long"}


def test_several_gpus_measure_an_experiment_each_and_the_manifest_says_so(
    lab: Lab, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits(monkeypatch, a_1=("begin b on 1", 1), b_1=("begin a on 0", 1))
    names = {name: experiment(name, runs=(Run("r", ("--variant", name)),)) for name in ("a", "b", "quiet")}
    quiet = replace(names["quiet"], host_bound=True)
    known(monkeypatch, names["a"], quiet, names["b"])
    assert lab.capture(wishes=Wishes(gpus=(0, 1))) == 0, lab.printed
    happened = events(log)
    assert set(happened[:2]) == {"begin a on 0", "begin b on 1"}
    assert set(happened[2:4]) == {"end a", "end b"}
    assert happened[4][:14] == "begin quiet on" and happened[5] == "end quiet"
    held = store.load_set("mine").experiments
    assert held["a"].shared_with == ("b",) and held["b"].shared_with == ("a",)
    assert held["quiet"].shared_with == ()


def test_gpus_are_numbered_among_those_that_are_visible_and_who_needs_several_gets_all(
    lab: Lab, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    argv = ("--variant", "both", "--gpus", catalogue.GPUS)
    known(monkeypatch, experiment("both", runs=(Run("r", argv),), needs_gpus=2))
    assert lab.capture(wishes=Wishes(gpus=(1, 0))) == 0, lab.printed
    assert events(log)[0] == "begin both on 7,5"
    assert "--gpus 2" in " ".join(store.load_set("mine").run("both", "r").argv)
    with pytest.raises(LabError, match="nothing was captured"):
        lab.capture(wishes=Wishes(gpus=(0,)))
    assert "both: not run: needs 2 GPUs, --gpus names 1" in lab.printed
    assert store.load_set("mine").skipped == {}  # the machine has them


def test_a_run_is_exported_while_the_next_is_measured(
    lab: Lab, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NSYS", "slow-export")
    waits(monkeypatch, export=("begin improved on None", 2))
    assert lab.capture("alpha", "beta") == 0
    happened = events(log)
    assert happened.index("begin improved on None") < happened.index("end export")
    assert happened.index("begin record on None") > max(
        i for i, what in enumerate(happened) if what == "end export"
    )  # beta depends on the host


def test_beside_what_depends_on_the_host_nothing_is_exported(
    lab: Lab, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NSYS", "slow-export")
    alpha = replace(catalogue.EXPERIMENTS["alpha"], host_bound=True)
    after = [experiment(name, runs=(Run("r", ("--variant", name)),)) for name in ("any", "quiet")]
    known(monkeypatch, alpha, after[0], replace(after[1], host_bound=True), alpha=0.5, any=1.0, quiet=2.0)
    waits(monkeypatch, export=("begin any on None", 1))
    began = time.monotonic()
    assert lab.capture() == 0
    happened = events(log)
    last = max(i for i, what in enumerate(happened) if what.startswith("end improved"))
    exported = max(i for i, what in enumerate(happened) if what == "end export")
    assert happened.index("begin export") > last
    assert last < happened.index("begin any on None") < exported  # this one is not disturbed
    assert happened.index("begin quiet on None") > exported
    until_next = seconds(log, "begin any on None") - began
    assert store.load_set("mine").experiments["alpha"].wall_s < until_next + 0.1  # its exports held no GPU


def test_what_is_being_exported_ends_with_the_capture(
    lab: Lab, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NSYS", "export-hangs")

    def interrupt() -> None:
        while not (log.exists() and "begin export" in log.read_text()):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        lab.capture("alpha")
    marked = [
        entry
        for entry in Path("/proc").glob("[0-9]*/environ")
        if str(log).encode() in _read(entry) and b"LABCODE_CHILD_OF=" in _read(entry)
    ]
    assert marked == [] and not (lab.sets / "mine").exists()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_gpu_too_small_is_named_kept_in_the_manifest_and_forgotten_when_one_is_large_enough(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    known(monkeypatch, experiment("small"), experiment("large", needs_gb=90))
    device = CudaDevice("NVIDIA H100", "9.0", 85_028_765_696, "0000:1b:00.0", {})
    monkeypatch.setattr(driver, "ask", lambda: Driver("13.0", (device,), None))
    why = "needs a GPU with 90 GB of memory, the one here has 85 GB"
    assert lab.capture() == 0
    assert f"large: not run: {why}" in lab.printed
    assert store.load_set("mine").skipped == {"large": why}
    stream = io.StringIO()
    verify.render(Console(file=stream, width=200))
    assert f"large: skipped, {why}" in stream.getvalue() and "not captured" not in stream.getvalue()
    assert lab.capture("small", "large") == 1
    with pytest.raises(LabError, match="nothing was captured"):
        lab.capture("large")
    assert lab.printed == f"large: not run: {why}\n"
    monkeypatch.setattr(
        needs.driver, "ask", lambda: Driver("13.0", (replace(device, memory_bytes=10**11),), None)
    )
    assert lab.capture("large") == 0
    assert json.loads((lab.sets / "mine/manifest.json").read_text()).get("skipped") is None


UNRECORDED = {
    "diagnosis_two_later",
    "inference_timeline",
    "llama_fixed",
    "llama_found",
    "llama_two_steps",
}  # their runs do not say what they reserved


def test_memory_that_is_declared_is_what_the_shipped_runs_reserved() -> None:
    captures = store.load_set(store.SHIPPED_SET)
    for name, one in EXPERIMENTS.items():
        if name in captures.experiments and one.tool in ("nsys", "torch"):
            records = [captures.record(name, run.name, clean=run.clean)["results"] for run in one.runs]
            most = max(record.get("memory_reserved_bytes", 0) for record in records)
            if one.needs_gb and not most:
                assert name in UNRECORDED
                continue
            assert one.needs_gb >= most / 1e9 + 1 if most > 15e9 else not one.needs_gb, name


def test_resuming_is_capturing_what_is_missing(captured: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from labcode.cli.main import program

    asked: list[object] = []
    monkeypatch.setattr(
        runner, "capture", lambda *given, **options: asked.append(options["only_missing"]) or 0
    )
    assert CliRunner().invoke(program(), ["capture", "--set", "mine", "--only-missing"]).exit_code == 0
    assert asked == [True]


@pytest.fixture
def fake_torch(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package called torch, on the path where programs look for packages."""
    folder = lab.home.parent / "packages"
    folder.mkdir()
    (folder / "torch.py").touch()
    lab.program.write_text(f"import torch\n{lab.program.read_text()}")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(needs, "unmet", lambda _: {})
    return folder


def test_where_pytorch_came_uncompiled_programs_share_what_python_compiles(
    lab: Lab, fake_torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.syspath_prepend(fake_torch)
    monkeypatch.delitem(sys.modules, "torch", raising=False)  # another test may have imported the real one
    known(monkeypatch, experiment("torchy", runs=(Run("a"), Run("b")), needs=("torch",)))
    assert lab.capture() == 0, lab.printed
    assert len([*(store.cache_folder() / "python").rglob("torch.*.pyc")]) == 1
    assert not (fake_torch / "__pycache__").exists()
    (fake_torch / "__pycache__").mkdir()
    there = Path(importlib.util.cache_from_source(str(fake_torch / "torch.py")))
    there.touch()
    assert runner._keep_compiled(lab.home) == {}


def test_who_runs_alone_waits_until_all_before_it_are_filed() -> None:
    plain, quiet, both = experiment("plain"), experiment("quiet", host_bound=True), experiment("both")
    both = replace(both, needs_gpus=2)
    for waiting, measured, filing, free, gpus, chosen in (
        ([quiet, plain], [], False, 1, 1, quiet),
        ([quiet, plain], [], True, 1, 1, None),  # the first in line is waited for
        ([plain, quiet], [], True, 1, 1, plain),
        ([plain], [quiet], False, 0, 1, None),
        ([quiet, plain], [experiment("other")], False, 1, 2, plain),
        ([both, plain], [], True, 2, 2, plain),
        ([both, plain], [], False, 2, 2, both),
        ([plain], [quiet], False, 1, 2, None),
        ([], [], False, 1, 1, None),
    ):
        assert schedule.next_of(waiting, measured, filing, free, gpus) is chosen


def test_gpus_share_what_does_not_run_alone() -> None:
    quiet, plain, other = experiment("quiet", host_bound=True), experiment("plain"), experiment("other")
    pace = Pace({"quiet": 5.0, "plain": 30.0, "other": 20.0})
    assert pace.expect_all([quiet, plain, other]) == 5 + 30 + 20
    assert pace.expect_all([quiet, plain, other], gpus=2) == 5 + 25
    assert pace.expect_all([]) == Pace({}).expect_all([plain]) == 0


def test_a_run_that_nobody_asks_for_its_own_times_is_made_once(
    lab: Lab, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = (Run("one", ("--variant", "one")), Run("exam", ("--variant", "exam"), clean=False))
    known(monkeypatch, experiment("traced", tool="nsys", runs=runs))
    assert lab.capture() == 0, lab.printed
    assert [what for what in events(log) if what.startswith("begin exam")] == ["begin exam on None"]
    held = store.load_set("mine")
    assert [f.name for f in held.run("traced", "exam").files] == ["exam.nsys.xz", "exam.json"]
    assert "one.clean.json" in [f.name for f in held.run("traced", "one").files]
    assert verify.outdated("traced", held.experiments["traced"]) == ""


def test_cuda_programs_are_built_before_anything_is_measured(
    lab: Lab, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(program: str, capability: tuple[int, int]) -> None:
        fakes.log(f"built {program} for {capability}")
        if program == "broken":
            raise LabError("broken: does not compile")

    monkeypatch.setattr(build, "build", built)
    device = CudaDevice("NVIDIA H100", "9.0", 85_028_765_696, "0000:1b:00.0", {})
    monkeypatch.setattr(driver, "ask", lambda: Driver("13.0", (device,), None))
    known(monkeypatch, *(experiment(n, program="sum") for n in "ab"), experiment("c", program="broken"))
    lab.program.write_text(f"import sys\nsys.argv[1:] = sys.argv[2:]\n{lab.program.read_text()}")
    assert lab.capture() == 0, lab.printed
    assert sorted(events(log)[:2]) == ["built broken for (9, 0)", "built sum for (9, 0)"] and events(log)[
        2
    ].startswith("begin")
    assert re.search(r"2 CUDA programs built or at hand after \d s", lab.printed)
