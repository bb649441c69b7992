"""What of a set is stale by which change, and what capturing that or all anew costs: a set in, a plan out.

The costs are what the same experiments took when they were captured, on the machine that the set names.
`labcode capture --stale` captures what `plan_of` names. What it has captured is fresh, so the next call goes
on with the rest: nothing else has to remember how far it came, and a set made in slices is one set.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from labcode import store
from labcode.capture import catalogue, schedule
from labcode.capture.experiment import Experiment
from labcode.capture.verify import outdated
from labcode.freshness import changed_sources
from labcode.outputs import DOCUMENT_SCHEMA
from labcode.show import Paper, check_format, period, write_json
from labcode.store import CaptureSet

_FORMATS = ("table", "json", "md")
_NO_GPU = "no GPU"


@dataclass(frozen=True)
class Held:
    """An experiment of a set: on which GPU it was captured, on which day, how long that took. Where it is
    stale, ``why`` says so, and ``sources`` are those that changed.
    """

    experiment: Experiment
    sources: tuple[str, ...]
    why: str
    gpu: str
    seconds: float
    day: str

    @property
    def gpus(self) -> int:
        """How many GPUs it needs."""
        return self.experiment.needs_gpus


@dataclass(frozen=True)
class Cost:
    """What the experiments of one model and number of GPUs take; ``too_long`` are longer than a slice."""

    gpu: str
    gpus: int
    experiments: tuple[str, ...]
    seconds: float
    slices: int
    too_long: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """A set's experiments, the most important first; what it lacks; what the catalogue lacks."""

    set_name: str
    held: tuple[Held, ...]
    missing: tuple[str, ...]
    gone: tuple[str, ...]

    @property
    def stale(self) -> tuple[Held, ...]:
        """Those that are stale."""
        return tuple(one for one in self.held if one.why)

    @property
    def names(self) -> tuple[str, ...]:
        """The stale experiments' names."""
        return tuple(one.experiment.id for one in self.stale)

    def changes(self) -> dict[str, list[str]]:
        """What changed, by file (or in words, where it is none), and the experiments that it made stale."""
        found: dict[str, list[str]] = {}
        for one in self.stale:
            for change in one.sources or (one.why,):
                found.setdefault(change, []).append(one.experiment.id)
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))

    def costs(self, slice_s: float | None = None, *, whole: bool = False) -> list[Cost]:
        """What capturing anew takes, what is stale or the ``whole`` set: by model and number of GPUs, and in
        how many slices of a length.
        """
        groups: dict[tuple[int, str], list[Held]] = {}
        for one in self.held if whole else self.stale:
            groups.setdefault((one.gpus, one.gpu), []).append(one)
        return [_cost(gpu, gpus, group, slice_s) for (gpus, gpu), group in sorted(groups.items())]


def plan_of(captures: CaptureSet) -> Plan:
    """What a set holds, what of it is stale, and what it lacks, and what the catalogue lost."""
    by_name, gone = {}, []
    for name, record in captures.experiments.items():
        experiment = catalogue.EXPERIMENTS.get(name)
        if experiment is None:
            gone.append(name)
            continue
        why = outdated(name, record)
        changed = changed_sources(record) if why else ()
        gpu = _model(captures.machines[record.machine])
        by_name[name] = Held(experiment, changed, why, gpu, record.wall_s, record.captured)
    seconds = {name: one.seconds for name, one in by_name.items()}
    ordered = schedule.in_order((one.experiment for one in by_name.values()), seconds)
    missing = [
        name for name in catalogue.EXPERIMENTS if name not in {**captures.experiments, **captures.skipped}
    ]
    return Plan(captures.name, tuple(by_name[one.id] for one in ordered), tuple(missing), tuple(gone))


def run(set_name: str, slice_s: float | None, *, fmt: str, output: TextIO) -> None:
    """Write the plan of a set (of the current one without a name) as 'table', 'md' or 'json'."""
    check_format(fmt, _FORMATS)
    plan = plan_of(store.load_set(set_name or None))
    if fmt == "json":
        write_json(document(plan, slice_s), output)
    else:
        _write(plan, slice_s, Paper(fmt, output))


def document(plan: Plan, slice_s: float | None = None) -> dict[str, object]:
    """A plan for programs: seconds, and names of experiments."""
    return {
        "schema": DOCUMENT_SCHEMA,
        "set": plan.set_name,
        "stale": [
            {
                "experiment": one.experiment.id,
                "sources": one.sources,
                "why": one.why,
                "gpu": one.gpu,
                "gpus": one.gpus,
                "seconds": one.seconds,
            }
            for one in plan.stale
        ],
        "changes": plan.changes(),
        "costs": [_priced(cost, slice_s) for cost in plan.costs(slice_s)],
        "whole": [_priced(cost, slice_s) for cost in plan.costs(slice_s, whole=True)],
        "missing": plan.missing,
        "not_in_catalogue": plan.gone,
    }


def _priced(cost: Cost, slice_s: float | None) -> dict[str, object]:
    """A cost for programs."""
    sliced = {"slices": cost.slices, "too_long": cost.too_long} if slice_s is not None else {}
    seconds = round(cost.seconds, 1)
    return {
        "gpu": cost.gpu,
        "gpus": cost.gpus,
        "seconds": seconds,
        "experiments": cost.experiments,
        **sliced,
    }


def _write(plan: Plan, slice_s: float | None, paper: Paper) -> None:
    if plan.stale:
        paper.heading(f"{plan.set_name}: {_count(len(plan.stale), 'experiment')} stale", first=True)
        rows = [
            [paper.text(change), str(len(names)), paper.text(", ".join(names))]
            for change, names in plan.changes().items()
        ]
        paper.table(("What changed", "Stale", "Experiments"), (False, True, False), lambda: rows)
        paper.heading("What capturing them anew takes")
        paper.points(_told(cost, slice_s) for cost in plan.costs(slice_s))
        slices = ""
        if slice_s is not None:
            slices = f" --budget {slice_s / 60:.0f}min" if slice_s % 60 == 0 else f" --budget {slice_s:g}s"
        paper.points([f"`labcode capture --stale --set {plan.set_name}{slices}` captures them"])
    else:
        paper.points([f"{plan.set_name}: nothing is stale"])
    if plan.held:
        days = sorted({one.day for one in plan.held})
        paper.heading(f"What the whole set took, captured on {_count(len(days), 'day')}")
        paper.points(_told(cost, slice_s) for cost in plan.costs(slice_s, whole=True))
    if plan.missing:
        paper.points(
            [f"not captured in this set: {', '.join(plan.missing)}; --only-missing captures these, too"]
        )
    if plan.gone:
        paper.points(
            [f"the catalogue has these no more, `labcode captures prune` drops them: {', '.join(plan.gone)}"]
        )


def _told(cost: Cost, slice_s: float | None) -> str:
    """What one kind of machine has to do, in words."""
    on = f"{cost.gpus} × {cost.gpu}" if cost.gpus else _NO_GPU
    text = f"{_count(len(cost.experiments), 'experiment')} on {on}: {period(cost.seconds)}"
    if slice_s is not None and cost.slices:
        text += f", in {_count(cost.slices, 'slice')} of {period(slice_s)}"
    if cost.too_long:
        text += f"; longer than a slice: {', '.join(cost.too_long)}"
    return text


def _cost(gpu: str, gpus: int, group: Sequence[Held], slice_s: float | None) -> Cost:
    fits = [one for one in group if slice_s is None or one.seconds <= slice_s]
    return Cost(
        gpu,
        gpus,
        tuple(one.experiment.id for one in group),
        sum(one.seconds for one in group),
        _slices([one.seconds for one in fits], slice_s) if slice_s is not None else 0,
        tuple(one.experiment.id for one in group if one not in fits),
    )


def _slices(seconds: Iterable[float], slice_s: float) -> int:
    """How many slices these take in their order, each slice filled as a capture fills it."""
    waiting, slices = list(seconds), 0
    while waiting:
        left, later = slice_s, []
        for one in waiting:
            if one <= left:
                left -= one
            else:
                later.append(one)
        waiting, slices = later, slices + 1
    return slices


def _model(machine: store.Machine) -> str:
    gpus = machine.get("gpus") or []
    names = [str(gpu["name"]) for gpu in gpus if gpu.get("name")]
    return names[0] if names else _NO_GPU


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + "s" * (number != 1)
