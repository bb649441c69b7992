"""What a profiler's command would record: a tool and a command line in; what is traced, and when, out.

A model of the options that people choose among, not of all: an option it does not know is refused with those
it does. The defaults are those of Nsight Systems 2025, Nsight Compute 2025 and PyTorch 2.11. Tests hold the
model against the options of the captures at hand and what these captures contain.
"""

import ast
import difflib
import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labcode.errors import LabError

_YES_NO = ("true", "false")
_FLAG = ()  # no value
_ANY = None  # any value

# Long name: its short one, the values there are (`_FLAG`: it has none; `_ANY`: any), the default.
Options = Mapping[str, tuple[str, tuple[str, ...] | None, str]]
NSYS: Options = {
    "trace": ("t", _ANY, "cuda,opengl,nvtx,osrt"),
    "sample": ("s", ("process-tree", "system-wide", "none"), "process-tree"),
    "cpuctxsw": ("", ("process-tree", "system-wide", "none"), "process-tree"),
    "sampling-period": ("", _ANY, ""),
    "samples-per-backtrace": ("", _ANY, ""),
    "python-sampling": ("", _YES_NO, "false"),
    "python-sampling-frequency": ("", _ANY, "1000"),
    "python-backtrace": ("", ("cuda", "none"), "none"),
    "cudabacktrace": ("", _ANY, "none"),
    "pytorch": ("", _ANY, "none"),
    "cuda-graph-trace": (
        "",
        tuple(one + origin for one in ("graph", "node") for origin in ("", ":host-only", ":host-and-device")),
        "graph",
    ),
    "cuda-memory-usage": ("", _YES_NO, "false"),
    "gpu-metrics-devices": ("", _ANY, "none"),
    "gpu-metrics-frequency": ("", _ANY, "10000"),
    "capture-range": ("c", ("none", "cudaProfilerApi", "nvtx", "hotkey"), "none"),
    "capture-range-end": ("", _ANY, "stop-shutdown"),
    "nvtx-capture": ("p", _ANY, ""),
    "env-var": ("e", _ANY, ""),
    "delay": ("y", _ANY, "0"),
    "duration": ("d", _ANY, "0"),
    "trace-fork-before-exec": ("", _YES_NO, "false"),
    "stats": ("", _YES_NO, "false"),
    "export": ("", _ANY, "none"),
    "output": ("o", _ANY, ""),
    "force-overwrite": ("f", _YES_NO, "false"),
}
NCU: Options = {
    "set": ("", ("basic", "detailed", "full", "roofline", "pmsampling", "nvlink"), ""),
    "section": ("", _ANY, ""),
    "metrics": ("", _ANY, ""),
    "kernel-id": ("", _ANY, ""),
    "kernel-name": ("k", _ANY, ""),
    "kernel-name-base": ("", ("function", "demangled", "mangled"), "function"),
    "launch-skip": ("s", _ANY, "0"),
    "launch-count": ("c", _ANY, ""),
    "launch-skip-before-match": ("", _ANY, "0"),
    "nvtx": ("", _FLAG, ""),
    "nvtx-include": ("", _ANY, ""),
    "nvtx-exclude": ("", _ANY, ""),
    "profile-from-start": ("", ("on", "off", "yes", "no", "1", "0"), "on"),
    "replay-mode": ("", ("kernel", "application", "range", "app-range"), "kernel"),
    "cache-control": ("", ("all", "none"), "all"),
    "clock-control": ("", ("base", "boost", "none", "reset"), "base"),
    "graph-profiling": ("", ("node", "graph"), "node"),
    "target-processes": ("", ("application-only", "all"), "all"),
    "import-source": ("", ("yes", "no", "on", "off"), "no"),
    "export": ("o", _ANY, ""),
    "force-overwrite": ("f", _FLAG, ""),
}
LABCODE: Mapping[str, Options] = {
    "stats": {
        "report": ("r", _ANY, ""),
        "format": ("f", ("table", "csv", "json", "md"), "table"),
        "window": ("", _ANY, ""),
        "kernel": ("k", _ANY, ""),
        "launch": ("", _ANY, ""),
        "output": ("o", _ANY, ""),
        "list": ("", _FLAG, ""),
        "all": ("", _FLAG, ""),
    },
    "diagnose": {
        "format": ("f", _ANY, "table"),
        "window": ("", _ANY, ""),
        "rules": ("", _ANY, ""),
    },
}
TOOLS = ("nsys", "ncu", "torch.profiler", "labcode")
_SHORT = 4  # letters: among such names the next in spelling is another thing
_MISTYPED = 3  # edits between a name that is mistyped and the one that was meant
_UNJUDGED = {  # options that there are, of which nothing is said here: those with a value, those without
    "nsys": (
        "backtrace cpu-core-events cpu-core-metrics cuda-event-trace cuda-flush-interval event-sample "
        "gpu-metrics-set gpuctxsw kill mpi-impl os-events osrt-threshold python-functions-trace "
        "resolve-symbols sampling-frequency session-new show-output stop-on-exit wait",
        "",
    ),
    "ncu": (
        "app-replay-mode apply-rules kill log-file page pipeline-boost-state pm-sampling-interval "
        "print-details print-summary print-units rule source-folders warp-sampling-interval "
        "warp-sampling-max-passes",
        "call-stack csv disable-extra-suffixes verbose",
    ),
}
_BEYOND = {  # options that there are, and change what nothing here tells
    "start-later": "recording would wait for `nsys start`, which nothing here calls",
    "inherit-environment": "the program would miss variables, and nothing here says which it needs",
    "run-as": "the program would be another user's, and nothing here says of any",
    **dict.fromkeys(
        ("nvtx-domain-include", "nvtx-domain-exclude"),
        "ranges would be left out by their domain, and nothing here says which they have",
    ),
    **dict.fromkeys(
        ("device", "devices"), "launches would be left out by their GPU, and nothing here says which it is"
    ),
    **dict.fromkeys(
        ("filter-mode", "range-filter", "target-processes-filter"),
        "launches would be picked by what nothing here tells; other options pick them, too",
    ),
}
_SETS = {
    "": {"SpeedOfLight", "LaunchStats", "Occupancy", "WorkloadDistribution"},
    "basic": {"SpeedOfLight", "LaunchStats", "Occupancy", "WorkloadDistribution"},
    "detailed": {"SpeedOfLight", "SpeedOfLight_RooflineChart", "LaunchStats", "Occupancy", "SourceCounters"}
    | {"ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "WorkloadDistribution"},
    "roofline": {"SpeedOfLight", "SpeedOfLight_RooflineChart", "WorkloadDistribution"},
    "full": {"SpeedOfLight", "SpeedOfLight_RooflineChart", "LaunchStats", "Occupancy", "SourceCounters"}
    | {"ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables"}
    | {"SchedulerStats", "WarpStateStats", "InstructionStats", "WorkloadDistribution"},
    "pmsampling": {"PmSampling"},
    "nvlink": {"Nvlink_Topology", "Nvlink_Tables"},
}


@dataclass(frozen=True)
class Launch:
    """A launch of a program that ncu might profile: the kernel, the NVTX ranges around it."""

    kernel: str
    ranges: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """A command taken apart: its options (those that are not judged apart) and the program."""

    options: Mapping[str, tuple[str, ...]]
    known: Options
    program: tuple[str, ...]
    unjudged: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> str:
        """The value of an option, the last if it stands there several times, or its default."""
        return self.options[name][-1] if name in self.options else self.known[name][2]

    def __contains__(self, name: str) -> bool:
        """Whether the option was given."""
        return name in self.options


@dataclass(frozen=True)
class Nsys:
    """What ``nsys profile`` would record."""

    line: Line

    @property
    def program(self) -> tuple[str, ...]:
        """The program, with its arguments."""
        return self.line.program

    @property
    def traces(self) -> frozenset[str]:
        """The APIs that are traced."""
        forms = {"cuda-hw": "cuda", "cuda-sw": "cuda"}
        return frozenset(forms.get(name, name) for name in self.line["trace"].split(",")) - {"none"}

    @property
    def cpu_samples(self) -> bool:
        """Whether the CPU's call stacks are sampled."""
        return self.line["sample"] != "none"

    @property
    def switches(self) -> bool:
        """Whether it is recorded when threads run; with samples of the CPU some of it comes in any case."""
        return self.line["cpuctxsw"] != "none" or self.cpu_samples

    @property
    def python_samples(self) -> bool:
        """Whether Python's stacks are sampled."""
        return self.line["python-sampling"] == "true"

    @property
    def python_backtraces(self) -> bool:
        """Whether calls of CUDA come with Python's stack; which takes that they are traced."""
        return self.line["python-backtrace"] == "cuda" and "cuda" in self.traces

    @property
    def graph_nodes(self) -> bool:
        """Whether each kernel of a graph is seen, not only the graph as a whole."""
        return self.line["cuda-graph-trace"].startswith("node") and "cuda" in self.traces

    @property
    def memory_usage(self) -> bool:
        """Whether allocations are recorded."""
        return self.line["cuda-memory-usage"] == "true" and "cuda" in self.traces

    @property
    def gpu_metrics(self) -> bool:
        """Whether counters of the GPU are sampled."""
        return self.line["gpu-metrics-devices"] not in ("none", "")

    @property
    def begins(self) -> str:
        """When recording begins: at once, after some s, with the profiler's API, or with a range."""
        kind = self.line["capture-range"]
        if kind == "nvtx":
            name = self.line["nvtx-capture"].partition("@")[0]
            return f"range {name}" if name else "a range that is not named"
        if kind != "none":
            return kind
        return f"after {self.line['delay']} s" if float(self.line["delay"]) else "at once"

    @property
    def ends_by_itself(self) -> bool:
        """Whether what begins the recording ends it, too, and the program goes on."""
        return self.line["capture-range"] != "none" and self.line["capture-range-end"] != "none"

    @property
    def repeats(self) -> bool:
        """Whether every range is recorded, not the first alone."""
        return self.line["capture-range-end"].startswith("repeat")

    @property
    def seconds(self) -> float:
        """For how many s it records at most; 0: as long as the program runs."""
        return float(self.line["duration"])


@dataclass(frozen=True)
class Ncu:
    """What ``ncu`` would record."""

    line: Line

    @property
    def program(self) -> tuple[str, ...]:
        """The program, with its arguments."""
        return self.line.program

    @property
    def sections(self) -> frozenset[str]:
        """The sections of the report."""
        own = [name for one in self.line.options.get("section", ()) for name in _sections(one)]
        if ("section" in self.line or "metrics" in self.line) and "set" not in self.line:
            return frozenset(own)
        return frozenset({*own, *_SETS[self.line["set"]]})

    @property
    def metrics(self) -> frozenset[str]:
        """The counters that were asked for by name."""
        return frozenset(name for one in self.line.options.get("metrics", ()) for name in one.split(","))

    def counts(self, metric: str) -> bool:
        """Whether a counter was asked for: by its name, without how it is summed up, or by ``regex:…``."""
        return any(
            re.search(name.removeprefix("regex:"), metric)
            if name.startswith("regex:")
            else name in (metric, metric.partition(".")[0])
            for name in self.metrics
        )

    @property
    def source(self) -> bool:
        """Whether the source goes into the report."""
        return self.line["import-source"] in ("yes", "on")

    @property
    def clocks_as_they_are(self) -> bool:
        """Whether the GPU's clock is left alone, not held at its base."""
        return self.line["clock-control"] == "none"

    @property
    def caches_as_they_are(self) -> bool:
        """Whether caches keep what the kernels before left there."""
        return self.line["cache-control"] == "none"

    def profiled(self, launches: Sequence[Launch]) -> list[int]:
        """Which of a program's launches are profiled, by their numbers."""
        if self.line["profile-from-start"] in ("off", "no", "0"):
            return []  # the program says when; in these examples it does not
        skip, count = int(self.line["launch-skip"]), self.line["launch-count"]
        before = int(self.line["launch-skip-before-match"])
        found = [n for n, one in enumerate(launches) if n >= before and self._meant(one)]
        if "kernel-id" in self.line:
            kernel, number = _of_id(self.line["kernel-id"])
            times = [1 + [one.kernel for one in launches[:n]].count(launches[n].kernel) for n in found]
            each = zip(found, times, strict=True)
            found = [
                n
                for n, time in each
                if _is_called(kernel, launches[n].kernel) and re.fullmatch(number or ".*", str(time))
            ]
        return found[skip:][: int(count)] if count else found[skip:]

    def nothing(self, launches: Sequence[Launch]) -> str:
        """Why none of a program's launches is profiled: the options without each of which some would be."""
        blamed = []
        for name in self.line.options:
            others = {key: value for key, value in self.line.options.items() if key != name}
            if Ncu(replace(self.line, options=others)).profiled(launches):
                blamed.append(f"--{name} {self.line[name]}")
        return f"no launch is left with {' and '.join(blamed)}" if blamed else "no launch at all is profiled"

    def _meant(self, one: Launch) -> bool:
        name, only = self.line["kernel-name"], self.line.options.get("nvtx-include", ())
        if not _is_called(name, one.kernel):
            return False
        if "nvtx" in self.line and any(
            _within(each, one.ranges) for each in self.line.options.get("nvtx-exclude", ())
        ):
            return False
        return not only or ("nvtx" in self.line and any(_within(each, one.ranges) for each in only))


@dataclass(frozen=True)
class Torch:
    """What ``torch.profiler.profile(…)`` would record."""

    given: Mapping[str, Any]

    @property
    def cpu(self) -> bool:
        """Whether operators are recorded."""
        return "activities" not in self.given or "CPU" in self.given["activities"]

    @property
    def cuda(self) -> bool:
        """Whether kernels are recorded; by default where there is a GPU."""
        return "activities" not in self.given or "CUDA" in self.given["activities"]

    def _on(self, name: str) -> bool:
        return bool(self.given.get(name, False))

    @property
    def shapes(self) -> bool:
        """Whether operators come with the shapes of what they get."""
        return self._on("record_shapes")

    @property
    def stacks(self) -> bool:
        """Whether operators come with the lines of Python that called them."""
        return self._on("with_stack")

    @property
    def memory(self) -> bool:
        """Whether allocations are recorded."""
        return self._on("profile_memory")

    @property
    def flops(self) -> bool:
        """Whether operations are counted for products and convolutions."""
        return self._on("with_flops")

    @property
    def modules(self) -> bool:
        """Whether operators come with the module they belong to."""
        return self._on("with_modules")

    @property
    def writes(self) -> bool:
        """Whether something is done with each recording when it is ready."""
        return "on_trace_ready" in self.given

    def recorded(self, steps: int) -> list[int]:
        """Which steps of a loop of so many are recorded, if it calls ``step()`` after each."""
        if "schedule" not in self.given:
            return list(range(steps))
        plan = self.given["schedule"]
        wait, warmup, active = (int(plan.get(name, 0)) for name in ("wait", "warmup", "active"))
        first, repeat = int(plan.get("skip_first", 0)), int(plan.get("repeat", 0))
        cycle, found = wait + warmup + active, []
        waited = wait if plan.get("skip_first_wait") else 0
        for step in range(first, steps):
            at, place = divmod(step - first + waited, cycle)
            if (not repeat or at < repeat) and place >= wait + warmup:
                found.append(step)
        return found

    @property
    def warmed(self) -> bool:
        """Whether the profiler itself has a step to warm up before what counts."""
        return int(self.given.get("schedule", {}).get("warmup", 0)) > 0


@dataclass(frozen=True)
class Labcode:
    """What a command of ``labcode`` would print."""

    command: str
    line: Line

    @property
    def reports(self) -> tuple[str, ...]:
        """The reports that are asked for."""
        return tuple(name for one in self.line.options.get("report", ()) for name in one.split(","))

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read."""
        return self.line.program


Recording = Nsys | Ncu | Torch | Labcode


def other_program(right: str) -> Callable[[Nsys | Ncu], str]:
    """What is told of a command that runs another program than the right one."""
    return lambda r: f"this runs `{shlex.join(r.program)}`; the program is {right}"


def begins_by_itself(r: Nsys) -> bool:
    """Whether recording waits for nothing that the program would have to do."""
    return r.line["capture-range"] == "none"


def waits(r: Nsys) -> str:
    """What is told of a recording that waits for what nobody says that the program does."""
    return f"recording would wait ({r.begins}), and nothing says that the program does that"


def named(launches: Sequence[Launch], numbers: Iterable[int]) -> str:
    """The kernels of some launches, each once, in words."""
    return ", ".join(dict.fromkeys(launches[n].kernel for n in numbers))


def read(tool: str, text: str) -> Recording:
    """What a command would record; `LabError` in the tool's stead for one that it would refuse."""
    if tool == "torch.profiler":
        return _torch(text)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise LabError(f"the shell would not take that: {error}") from None
    if not words or words[0] != tool:
        raise LabError(f"a command of {tool} begins with {tool}, not {words[0] if words else 'nothing'!r}")
    if tool == "nsys":
        if words[1:2] != ["profile"]:
            raise LabError("nsys records with `nsys profile`; its other commands read or control")
        line = _line("nsys profile", words[2:], NSYS)
        return Nsys(_with_program("nsys profile", line))
    if tool == "ncu":
        line = _line("ncu", words[1:], NCU)
        _of_id(line["kernel-id"] or ":::")
        return Ncu(_with_program("ncu", line))
    command = words[1] if len(words) > 1 else ""
    if command not in LABCODE:
        raise LabError(f"labcode {command}: here it is one of {', '.join(LABCODE)}")
    options, known = words[2:], LABCODE[command]
    return Labcode(command, _line(f"labcode {command}", options, known, mixed=True))


def _line(command: str, words: Sequence[str], known: Options, *, mixed: bool = False) -> Line:
    """Options and the rest; with ``mixed`` options may stand after it, too."""
    short = {one[0]: name for name, one in known.items() if one[0]}
    found: dict[str, tuple[str, ...]] = {}
    rest, left, unjudged = list[str](), list(words), list[str]()
    while left:
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            rest.append(word)
            if mixed:
                continue
            rest += left
            break
        name, given, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            if name not in short and name[:1] in short and not given:  # -fkernel
                name, value, given = name[0], name[1:], "="
            name = short.get(name, name)
        if name not in known:
            tool = command.partition(" ")[0]
            valued, flags = (one.split() for one in _UNJUDGED.get(tool, ("", "")))
            if name in valued or name in flags:
                unjudged.append(name)
                if name in valued and not given and not left:
                    raise LabError(f"{command}: --{name} wants a value")
                if name in valued and not given:
                    left.pop(0)
                continue
            if tool in _UNJUDGED and name in _BEYOND:
                raise LabError(f"{command}: with --{name} {_BEYOND[name]}")
            begin = [one for one in known if name and one.startswith(name)]
            close = begin or [
                one
                for one in difflib.get_close_matches(name, known, n=1, cutoff=0.75)
                if _edits(name, one) <= _MISTYPED
            ]
            others = {"nsys": NSYS, "ncu": NCU, **{f"labcode {one}": names for one, names in LABCODE.items()}}
            owner = next((tool for tool, names in others.items() if name in names), "")
            meant = f"; it is one of {owner}" if owner else ""
            meant = f"; did you mean --{close[0]}?" if close else meant
            raise LabError(f"{command} has no option {word.partition('=')[0]} among those known here{meant}")
        values = known[name][1]
        if values == _FLAG:
            if given:
                raise LabError(f"{command}: --{name} takes no value")
        elif not given:
            if not left:
                raise LabError(f"{command}: --{name} wants a value")
            value = left.pop(0)
        if values and value not in values:
            raise LabError(f"{command}: --{name} is one of {', '.join(values)}; not {value!r}")
        if name in _WHOLE and not re.fullmatch(r"\d+", value):
            raise LabError(f"{command}: --{name} is a whole number, not {value!r}")
        low, high = _BETWEEN.get(name, (0, math.inf))
        if name in _BETWEEN and not low <= int(value) <= high:
            raise LabError(f"{command}: --{name} is {low:,} to {high:,}, not {value}")
        found[name] = (*found.get(name, ()), value)
    return Line(found, known, tuple(rest), tuple(dict.fromkeys(unjudged)))


def _with_program(command: str, line: Line) -> Line:
    if not line.program:
        raise LabError(f"{command}: no program after the options; what should be recorded?")
    return line


_WHOLE = ("delay", "duration", "launch-skip", "launch-count", "launch-skip-before-match") + (
    "gpu-metrics-frequency",
    "python-sampling-frequency",
)
_BETWEEN = {"gpu-metrics-frequency": (10, 200_000)}  # Hz
_TORCH = (
    *("activities", "schedule", "on_trace_ready", "record_shapes", "profile_memory", "with_stack"),
    *("with_flops", "with_modules"),
)
_SCHEDULE = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
_ACTIVITIES = ("CPU", "CUDA", "XPU", "MTIA", "HPU", "PrivateUse1")
_TORCH_UNJUDGED = (
    *("experimental_config", "execution_trace_observer", "acc_events", "custom_trace_id_callback"),
    "post_processing_timeout_s",
)


def _torch(text: str) -> Torch:
    """The arguments of a call, written as in Python."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise LabError(f"not an expression of Python: {getattr(error, 'msg', None) or error}") from None
    if not (isinstance(call, ast.Call) and _last(call.func) == "profile"):
        raise LabError("write the call: profile(activities=[…], …)")
    if call.args:
        raise LabError("profile takes its arguments by name: activities=[…], …")
    found: dict[str, Any] = {}
    for one in call.keywords:
        if one.arg not in _TORCH_UNJUDGED:
            found[_known(one.arg, _TORCH, "profile")] = one.value
    given: dict[str, Any] = {}
    for name, value in found.items():
        if name == "activities":
            each = value.elts if isinstance(value, ast.List | ast.Tuple | ast.Set) else [value]
            given[name] = tuple(
                _known(_last(item) or ast.unparse(item), _ACTIVITIES, "activities") for item in each
            )
        elif name == "schedule":
            if not (isinstance(value, ast.Call) and _last(value.func) == "schedule"):
                raise LabError("schedule=schedule(wait=…, warmup=…, active=…)")
            if value.args:
                raise LabError("schedule takes its arguments by name: wait=…, warmup=…, active=…")
            given[name] = {_known(k.arg, _SCHEDULE, "schedule"): _number(k.value) for k in value.keywords}
            if missing := [word for word in _SCHEDULE[:3] if word not in given[name]]:
                raise LabError(f"schedule wants {', '.join(missing)}, too")
            if given[name]["active"] < 1:
                raise LabError("schedule: active is at least 1")
        elif name == "on_trace_ready":
            if isinstance(value, ast.Call) and not value.args and not value.keywords:
                raise LabError(
                    f"on_trace_ready is a function, which {ast.unparse(value)} calls: leave out ()"
                )
            given[name] = True
        else:
            if not (isinstance(value, ast.Constant) and isinstance(value.value, bool)):
                raise LabError(f"profile: {name} is True or False")
            given[name] = value.value
    return Torch(given)


def _number(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value >= 0:
        return int(node.value)
    raise LabError("schedule counts steps: whole numbers")


def _last(node: ast.expr) -> str:
    """The last word of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _edits(one: str, other: str) -> int:
    """How many letters are left out or put in between two names; a letter for another is two."""
    alike = difflib.SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return len(one) + len(other) - 2 * sum(block.size for block in alike)


def _known(name: str | None, names: Sequence[str], of: str) -> str:
    if name in names:
        return str(name)
    close = difflib.get_close_matches(name or "", names, n=1) if len(name or "") > _SHORT else []
    meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
    raise LabError(f"{of} has no {name or 'such argument'!r} among those known here; {meant}")


def _is_called(name: str, kernel: str) -> bool:
    """Whether a kernel has a name, or fits ``regex:…``; any fits nothing."""
    if name.startswith("regex:"):
        return re.search(name.removeprefix("regex:"), kernel) is not None
    return name in ("", kernel)


def _of_id(text: str) -> tuple[str, str]:
    """The kernel and the invocations, from 1 on, of ``context:stream:[regex:]kernel:invocation``."""
    context, _, rest = text.partition(":")
    stream, colon, rest = rest.partition(":")
    kernel, last, number = rest.rpartition(":")
    if not (colon and last) or kernel == "regex":
        raise LabError(
            f"ncu: --kernel-id is context:stream:[regex:]kernel:invocation, as ::gemm:2; not {text!r}"
        )
    if context or stream:
        raise LabError(
            "ncu: these examples have no numbers of contexts and streams: leave them empty, ::kernel:2"
        )
    try:
        re.compile(kernel.removeprefix("regex:")), re.compile(number)
    except re.error as error:
        raise LabError(f"ncu: --kernel-id {text}: no regular expression: {error}") from None
    return kernel, number


def _within(filtered: str, ranges: Sequence[str]) -> bool:
    """Whether a filter of NVTX ranges takes in a launch.

    ``step/`` is a range of push and pop, ``step`` one of start and end, of which these examples have none;
    ``[`` and ``]`` are the bottom and the top of the stack, ``*`` any ranges in between.
    """
    name, slash, _ = filtered.removeprefix("[").removesuffix("]").replace("*/", "").rpartition("/")
    return bool(name and slash) and any(_is_called(name, one) for one in ranges)


def _sections(name: str) -> list[str]:
    """The sections of a name, or of ``regex:…``, which has to fit whole."""
    if not name.startswith("regex:"):
        return name.split(",")
    return sorted(
        one for one in set().union(*_SETS.values()) if re.fullmatch(name.removeprefix("regex:"), one)
    )
