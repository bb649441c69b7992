"""The model of profilers' options: what it takes and refuses; real captures hold what it says."""

from collections.abc import Iterator

import pytest
import typer

from labcode import store
from labcode.cli import program
from labcode.errors import LabError
from labcode.grading import commands
from labcode.grading.commands import Labcode, Launch, Ncu, Nsys, Torch
from labcode.reports.ncu.report import open_report as open_ncu
from labcode.reports.nsys.report import open_report


def nsys(options: str) -> Nsys:
    found = commands.read("nsys", f"nsys profile {options} ./a.out")
    assert isinstance(found, Nsys)
    return found


def ncu(options: str) -> Ncu:
    found = commands.read("ncu", f"ncu {options} ./a.out")
    assert isinstance(found, Ncu)
    return found


def torch(text: str) -> Torch:
    found = commands.read("torch.profiler", text)
    assert isinstance(found, Torch)
    return found


LARGE = 8_000_000  # bytes of a report: NVIDIA's reader takes seconds for one


def runs(tool: str) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """The captures of a tool that are at hand, each set of options once, in the smallest that has them."""
    found: dict[tuple[str, ...], tuple[int, str, str, str]] = {}
    for name in store.list_sets():
        captures = store.load_set(name)
        for experiment, record in captures.experiments.items():
            if record.tool != tool or captures.absent(experiment):
                continue
            for run, one in record.runs.items():
                size = sum(file.size_bytes for file in one.files)
                this = (size, name, experiment, run)
                found[one.tool_args] = min(this, found.get(one.tool_args, this))
    for words, (_, name, experiment, run) in found.items():
        yield name, experiment, run, words


def test_captures_of_nsys_hold_what_their_options_say() -> None:
    count = 0
    for name, experiment, run, words in runs("nsys"):
        said = nsys(" ".join(words))
        report = open_report(store.load_set(name).path_of(experiment, run))
        where = (name, experiment, run)
        assert bool(len(report.gpu_ops())) == ("cuda" in said.traces), where
        assert bool(len(report.osrt())) == ("osrt" in said.traces), where
        assert not len(report.nvtx()) or "nvtx" in said.traces, where
        assert bool(len(report.cpu_samples())) == said.cpu_samples, where
        assert bool(len(report.context_switches())) == said.switches, where
        assert bool(len(report.python_samples())) == said.python_samples, where
        assert bool(len(report.python_backtraces())) == said.python_backtraces, where
        assert bool(len(report.gpu_metrics())) == said.gpu_metrics, where
        assert bool(len(report.memory_usage())) == said.memory_usage, where
        assert bool(report.kernels()["graph_node"].notna().any()) <= said.graph_nodes, where
        assert not (said.graph_nodes and len(report.graph_launches())), where
        count += 1
    assert count >= 8


def test_reports_of_ncu_hold_what_their_options_say() -> None:
    count = 0
    for name, experiment, run, words in runs("ncu"):
        said = ncu(" ".join(words).replace("regex:", "'regex:").replace(")$", ")$'"))
        path = store.load_set(name).path_of(experiment, run, ".ncu-rep")
        if path.stat().st_size > LARGE:  # each experiment has smaller ones with other filters
            continue
        report = open_ncu(path)
        sections = {section.id for launch in report.list for section in launch.sections}
        where = (name, experiment, run)
        assert said.sections <= sections | {"WorkloadDistribution"}, (where, said.sections - sections)
        assert ("WarpStateStats" in sections) == ("WarpStateStats" in said.sections), where
        assert said.clocks_as_they_are == (report.clock_control == "none"), where
        count += 1
    assert count >= 10


def test_options_of_labcode_are_those_of_the_command() -> None:
    group = typer.main.get_command(program())
    assert hasattr(group, "commands")
    for name, options in commands.LABCODE.items():
        known = {word for one in group.commands[name].params for word in one.opts}
        for long, (short, *_) in options.items():
            assert f"--{long}" in known and (not short or f"-{short}" in known), (name, long)


@pytest.mark.parametrize(
    ("options", "what", "value"),
    [
        ("", "cpu_samples", True),
        ("-s none", "cpu_samples", False),
        ("--sample=none", "cpu_samples", False),
        ("", "switches", True),
        ("--cpuctxsw=none", "switches", True),
        ("-s none --cpuctxsw=none", "switches", False),
        ("", "traces", {"cuda", "nvtx", "osrt", "opengl"}),
        ("-t none", "traces", set()),
        ("-t nvtx --python-backtrace=cuda", "python_backtraces", False),
        ("-t cuda-sw", "traces", {"cuda"}),
        ("--cuda-graph-trace=node", "graph_nodes", True),
        ("--cuda-graph-trace=node:host-only", "graph_nodes", True),
        ("", "graph_nodes", False),
        ("", "begins", "at once"),
        ("-y 5", "begins", "after 5 s"),
        ("-c cudaProfilerApi", "begins", "cudaProfilerApi"),
        ("-c nvtx -p step@app", "begins", "range step"),
        ("-c cudaProfilerApi", "ends_by_itself", True),
        ("", "ends_by_itself", False),
        ("-c nvtx -p step --capture-range-end=repeat:3", "repeats", True),
        ("-d 10", "seconds", 10.0),
        ("--gpu-metrics-devices=all", "gpu_metrics", True),
    ],
)
def test_what_nsys_would_record(options: str, what: str, value: object) -> None:
    assert getattr(nsys(options), what) == value


LAUNCHES = [Launch("copy"), Launch("gemm", ("step",)), Launch("gemm"), Launch("scale", ("step", "tail"))]


@pytest.mark.parametrize(
    ("options", "profiled"),
    [
        ("", [0, 1, 2, 3]),
        ("-k gemm", [1, 2]),
        ("-k gem", []),
        ("-k regex:^g", [1, 2]),
        ("-k gemm -s 1", [2]),
        ("-k gemm -c 1", [1]),
        ("-s 1 -c 2", [1, 2]),
        ("-k gemm --launch-skip-before-match 2", [2]),
        ("--nvtx --nvtx-include step/", [1, 3]),
        ("--nvtx --nvtx-include step", []),
        ("--nvtx --nvtx-include [step/]", [1, 3]),
        ("--nvtx --nvtx-include */tail/", [3]),
        ("--nvtx --nvtx-include regex:^st/", [1, 3]),
        ("--nvtx --nvtx-include /", []),
        ("--nvtx-include step/", []),
        ("--nvtx --nvtx-exclude step/", [0, 2]),
        ("--nvtx --nvtx-include step/ --nvtx-exclude tail/", [1]),
        ("--nvtx-exclude step/", [0, 1, 2, 3]),
        ("--profile-from-start off", []),
        ("--kernel-id ::gemm:2", [2]),
        ("--kernel-id :::1", [0, 1, 3]),
        ("--kernel-id ::regex:^g:", [1, 2]),
        ("--kernel-id '::gemm:1|3'", [1]),
        ("--kernel-id ::gemm:2 -s 1", []),
        ("--nvtx --nvtx-include step/ --kernel-id ::gemm:2", []),
    ],
)
def test_which_launches_ncu_would_profile(options: str, profiled: list[int]) -> None:
    assert ncu(options).profiled(LAUNCHES) == profiled


def test_what_leaves_no_launch_is_named() -> None:
    assert ncu("-k gemm -s 1 -c 1").profiled(LAUNCHES)
    assert ncu("-k gem").nothing(LAUNCHES) == "no launch is left with --kernel-name gem"
    both = "no launch is left with --kernel-name gemm and --launch-skip 3"
    assert ncu("-k gemm -s 3").nothing(LAUNCHES) == both
    assert ncu("-k gem -s 9").nothing(LAUNCHES) == "no launch at all is profiled", "of which either suffices"


def test_what_ncu_would_collect() -> None:
    assert {"SpeedOfLight", "Occupancy"} <= ncu("").sections and "WarpStateStats" not in ncu("").sections
    assert ncu("--section WarpStateStats").sections == {"WarpStateStats"}
    assert ncu("--set full --section PmSampling").sections > {"WarpStateStats", "PmSampling"}
    assert ncu("--metrics a,b").metrics == {"a", "b"} and not ncu("--metrics a").sections
    assert not ncu("--section regex:WarpState").sections, "it has to fit whole"
    assert ncu("--section regex:Warp.*").sections == {"WarpStateStats"}
    assert ncu("--metrics a,regex:^b__t").counts("a.sum") and ncu("--metrics regex:^b__t").counts(
        "b__time.max"
    )
    assert not ncu("--metrics a.sum").counts("a.max") and not ncu("--clock-control boost").clocks_as_they_are
    assert not ncu("").clocks_as_they_are and ncu("--clock-control none").clocks_as_they_are
    assert not ncu("").caches_as_they_are and ncu("--cache-control none").caches_as_they_are
    assert ncu("--import-source yes").source and not ncu("").source


@pytest.mark.parametrize(
    ("plan", "recorded"),
    [
        ("schedule(wait=1, warmup=1, active=2, repeat=1)", [2, 3]),
        ("schedule(wait=1, warmup=1, active=2)", [2, 3, 6, 7]),
        ("schedule(wait=0, warmup=0, active=3, repeat=2)", [0, 1, 2, 3, 4, 5]),
        ("torch.profiler.schedule(skip_first=4, wait=0, warmup=1, active=1, repeat=1)", [5]),
    ],
)
def test_which_steps_torch_would_record(plan: str, recorded: list[int]) -> None:
    assert torch(f"torch.profiler.profile(schedule={plan})").recorded(8) == recorded


def test_what_torch_would_record() -> None:
    everything = torch("profile(record_shapes=True, with_stack=True, profile_memory=True, with_flops=False)")
    assert (everything.shapes, everything.stacks, everything.memory) == (True, True, True)
    assert everything.cpu and everything.cuda and not (everything.flops or everything.modules)
    assert not everything.writes and not everything.warmed and everything.recorded(3) == [0, 1, 2]
    assert not torch("profile(activities=[ProfilerActivity.CUDA])").cpu


def test_schedules_are_those_of_pytorch() -> None:
    profiler = pytest.importorskip("torch.profiler")
    plans = (
        {"wait": 2, "warmup": 1, "active": 3, "repeat": 2},
        {"wait": 1, "warmup": 0, "active": 2},
        {"wait": 5, "warmup": 1, "active": 2, "skip_first": 3, "skip_first_wait": 1},
        {"wait": 5, "warmup": 1, "active": 2, "skip_first": 3, "skip_first_wait": True, "repeat": 2},
    )
    for plan in plans:
        actions = profiler.schedule(**plan)
        real = [step for step in range(20) if "RECORD" in actions(step).name]
        words = ", ".join(f"{name}={value}" for name, value in plan.items())
        assert torch(f"profile(schedule=schedule({words}))").recorded(20) == real


def test_what_labcode_would_print() -> None:
    found = commands.read("labcode", "labcode stats run.sqlite -r a,b --window steady")
    assert isinstance(found, Labcode) and found.reports == ("a", "b") and found.files == ("run.sqlite",)
    assert found.line["window"] == "steady" and found.line["format"] == "table"


@pytest.mark.parametrize(
    ("tool", "text", "message"),
    [
        ("nsys", "", "a command of nsys begins with nsys, not 'nothing'"),
        ("nsys", "ncu ./a", "a command of nsys begins with nsys, not 'ncu'"),
        ("nsys", "nsys stats a", "nsys records with `nsys profile`"),
        (
            "nsys",
            "nsys profile --gpu-metric-freq=9 ./a",
            "no option --gpu-metric-freq among those known here$",
        ),
        ("nsys", "nsys profile -t cuda", "no program after the options"),
        (
            "nsys",
            "nsys profile --traces=cuda ./a",
            "no option --traces among those known here; did you mean --trace",
        ),
        (
            "nsys",
            "nsys profile --sample=off ./a",
            "--sample is one of process-tree, system-wide, none; not 'off'",
        ),
        ("nsys", "nsys profile -o", "--output wants a value"),
        ("nsys", "nsys profile -y soon ./a", "--delay is a whole number, not 'soon'"),
        ("nsys", "nsys profile 'a", "the shell would not take that"),
        (
            "nsys",
            "nsys profile --gpu-metrics-frequency=500000 ./a",
            "--gpu-metrics-frequency is 10 to 200,000, not 500000",
        ),
        ("nsys", "nsys profile --kill", "--kill wants a value"),
        ("nsys", "nsys profile --start-later=true ./a", "with --start-later recording would wait for"),
        ("ncu", "ncu --devices 0 ./a", "with --devices launches would be left out by their GPU"),
        ("ncu", "ncu --nvtx=yes ./a", "--nvtx takes no value"),
        ("ncu", "ncu --trace=cuda ./a", "no option --trace among those known here; it is one of nsys"),
        ("ncu", "ncu --kernel gemm ./a", "did you mean --kernel-"),
        ("ncu", "ncu --kernel-id gemm:2 ./a", "--kernel-id is context:stream:"),
        ("ncu", "ncu --kernel-id 1:7:gemm:2 ./a", "leave them empty"),
        ("ncu", "ncu --kernel-id '::regex:(:2' ./a", "no regular expression"),
        ("torch.profiler", "profile(", "not an expression of Python"),
        ("torch.profiler", "start()", r"write the call: profile\(activities="),
        ("torch.profiler", "profile([1])", "profile takes its arguments by name"),
        ("torch.profiler", "profile(on_trace_ready=save())", "on_trace_ready is a function"),
        (
            "torch.profiler",
            "profile(record_shape=True)",
            "profile has no 'record_shape' among those known here; did you mean record_shapes",
        ),
        ("torch.profiler", "profile(with_stack=1)", "with_stack is True or False"),
        (
            "torch.profiler",
            "profile(activities=[GPU])",
            "activities has no 'GPU' among those known here; there are CPU, CUDA",
        ),
        ("torch.profiler", "profile(schedule=3)", r"schedule=schedule\(wait="),
        ("torch.profiler", "profile(schedule=schedule(1, 1, 1))", "schedule takes its arguments by name"),
        ("torch.profiler", "profile(schedule=schedule(wait=1))", "schedule wants warmup, active, too"),
        (
            "torch.profiler",
            "profile(schedule=schedule(wait=-1, warmup=1, active=1))",
            "schedule counts steps",
        ),
        ("torch.profiler", "profile(schedule=schedule(wait=1, warmup=1, active=0))", "active is at least 1"),
        ("labcode", "labcode timeline a", "here it is one of stats, diagnose"),
    ],
)
def test_what_a_tool_would_refuse(tool: str, text: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        commands.read(tool, text)


@pytest.mark.parametrize(
    ("tool", "text", "names"),
    [
        ("nsys", "nsys profile --kill none --backtrace=fp --wait all -t cuda ./a -x", "kill backtrace wait"),
        ("ncu", "ncu --csv --page raw --print-units=base -k gemm ./a -x", "csv page print-units"),
    ],
)
def test_options_that_are_not_judged_do_no_harm(tool: str, text: str, names: str) -> None:
    found = commands.read(tool, text)
    assert isinstance(found, commands.Nsys | commands.Ncu)
    assert found.line.unjudged == tuple(names.split()) and found.program == ("./a", "-x")
    assert len(found.line.options) == 1
