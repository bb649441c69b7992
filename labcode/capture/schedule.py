"""When experiments run: what they took on the shipped set in; an order, estimates, spoken times out.

Each GPU is a lane, and the CPUs are one more: it is for what the lab times of itself once that needs no GPU.
On the GPUs those run meanwhile whose measurements do not depend on the host.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import inf

from labcode import store
from labcode.capture.experiments.record import Experiment
from labcode.errors import InputError, LabError

_PAGE_USES = re.compile(r"\{captures-used\}([\w \t,-]+)")
_DAMPING_S = 60.0  # of shipped time: how much has to be done before this machine's own pace counts
MANY_CPUS = 8  # from here on what is measured on a GPU leaves some to other work
_ON_GPU = 0.25  # of its time: how long what frees its GPU holds it
_UNTIMED = ("ncu", "memory")  # tools that record counts, not times
_UNITS_S = (3600.0, 60.0, 1.0, 1e-3)
_NUMBER = r"(?:(\d+(?:\.\d+)?|\.\d+)%s)?"
_TIME = re.compile("".join(_NUMBER % unit for unit in ("h", r"m(?:in)?(?!s)", "s", "ms")))


def shipped_seconds() -> dict[str, float]:
    """How long each experiment took on the set that ships with the book; empty where that is not at hand."""
    if store.SHIPPED_SET not in store.list_sets():
        return {}
    try:
        captures = store.load_set(store.SHIPPED_SET)
    except InputError:
        return {}
    return {name: record.wall_s for name, record in captures.experiments.items()}


def pages_using() -> Counter[str]:
    """How many pages of the book say that they use each experiment."""
    found: Counter[str] = Counter()
    for page in sorted((store.repository_root() / "book").rglob("*.md")):
        text = page.read_text(encoding="utf-8", errors="replace")
        found.update({name for m in _PAGE_USES.finditer(text) for name in re.split(r"[\s,]+", m[1]) if name})
    return found


def in_order(experiments: Iterable[Experiment], took: Mapping[str, float]) -> list[Experiment]:
    """The most important first: of most pages, then the shortest; the lab's measurements of itself last."""
    pages = pages_using()
    return sorted(experiments, key=lambda e: (bool(e.times), -pages[e.id], took.get(e.id, inf)))


def after(chosen: Experiment, waiting: Sequence[Experiment], hurry: bool) -> list[Experiment]:
    """Who still waits when one begins: by turns those that run alone and the others, both in their order.

    So the programs of those that run alone import PyTorch beside another experiment, and their recordings are
    exported and compressed beside the next. In a ``hurry`` all keep their places.
    """
    rest = [experiment for experiment in waiting if experiment is not chosen]
    if hurry:
        return rest
    kinds = [[e for e in rest if alone(e) is kind] for kind in (not alone(chosen), alone(chosen))]
    return [e for pair in zip_longest(*kinds) for e in pair if e is not None]


def alone(experiment: Experiment) -> bool:
    """Whether nothing runs beside an experiment on this GPU or another."""
    return experiment.host_bound or experiment.needs_gpus > 1


def ends_on_cpus(experiment: Experiment) -> bool:
    """Whether what is measured are programs of the lab that need no GPU, or none any more after a while, and
    there are CPUs enough to go on beside them.
    """
    lets_go = not experiment.needs_gpus or bool(experiment.frees_gpu)
    return bool(experiment.times) and lets_go and len(os.sched_getaffinity(0)) >= MANY_CPUS


def next_of(
    waiting: Sequence[Experiment], measuring: Sequence[tuple[Experiment, bool]], free: int, hurry: bool
) -> Experiment | None:
    """The experiment that can begin now, or None; one that runs alone waits while any other is measured.

    ``measuring`` says of each whether it has left the GPUs for the lane of CPUs, ``free`` is how many GPUs
    are. With one GPU the first in line is waited for, with several whoever can run beside the others goes
    first. The lane of CPUs is filled as soon as the first in line does not run alone, unless there is a
    ``hurry``: not all can be done in time, and what the lab times of itself is the least important. Beside
    it those go first that record no times.
    """
    on_gpus = [experiment for experiment, on_cpus in measuring if not on_cpus]
    if any(alone(experiment) for experiment in on_gpus):
        return None
    line = waiting if free + len(measuring) > 1 else waiting[:1]
    if len(on_gpus) < len(measuring):
        line = sorted((e for e in waiting if not alone(e)), key=lambda e: e.tool not in _UNTIMED)
    elif waiting and not alone(waiting[0]) and not hurry:
        aside = [e for e in waiting if ends_on_cpus(e) and not (measuring and e.needs_gpus)]
        if aside:
            return max(aside, key=lambda e: e.needs_gpus)
    for experiment in line:
        if not measuring if alone(experiment) else free:
            return experiment
    return None


@dataclass
class Pace:
    """How long experiments take here: as they did on this machine, else at its pace beside the shipped set.

    ``took`` holds the seconds of the shipped set, ``here`` those of this machine.
    """

    took: Mapping[str, float]
    here: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of_set(cls, captured: Mapping[str, float]) -> Pace:
        """The pace of a set of which the seconds of each experiment are known."""
        return cls(shipped_seconds(), dict(captured))

    def learn(self, experiment: str, seconds: float) -> None:
        """An experiment took so long here."""
        self.here[experiment] = seconds

    def expect(self, experiments: Iterable[Experiment]) -> float:
        """Seconds that experiments will take here, one after another; one never measured as the average."""
        both = self.took.keys() & self.here
        here_s, there_s = (sum(times[name] for name in both) + _DAMPING_S for times in (self.here, self.took))
        average = sum(self.took.values()) / max(1, len(self.took))
        return sum(self.here.get(e.id, here_s / there_s * self.took.get(e.id, average)) for e in experiments)

    def expect_all(self, experiments: Iterable[Experiment], gpus: int = 1) -> float:
        """Seconds until all of the experiments are measured: the longest lane's."""
        return max((end for _, end in self.plan(experiments, gpus).values()), default=0.0)

    def plan(self, experiments: Iterable[Experiment], gpus: int = 1) -> dict[str, tuple[float, float]]:
        """When each of the experiments, given in order, begins and ends, in the order in which they begin."""
        found: dict[str, tuple[float, float]] = {}
        waiting, now = list(experiments), 0.0
        measuring: list[tuple[Experiment, float, float]] = []  # when it leaves its GPU, and when it is done
        while waiting or measuring:
            told = [(experiment, leaves <= now) for experiment, leaves, _ in measuring]
            chosen = next_of(waiting, told, gpus - sum(not left for _, left in told), hurry=False)
            if chosen is not None:
                waiting = after(chosen, waiting, hurry=False)
                seconds = self.expect([chosen])
                share = 1.0 if not ends_on_cpus(chosen) else _ON_GPU if chosen.needs_gpus else 0.0
                measuring.append((chosen, now + share * seconds, now + seconds))
                found[chosen.id] = (now, now + seconds)
                continue
            now = min((at for _, *both in measuring for at in both if at > now), default=now)
            measuring = [one for one in measuring if one[2] > now]
        return found


def parse_time(text: str, option: str, least_s: float = 0.0) -> float:
    """Seconds in ``30m``, ``90s``, ``1h30m``, ``0.5s`` or ``100ms``; `LabError` for anything else."""
    found = _TIME.fullmatch(text.replace(" ", ""))
    parts = [(float(n), unit) for n, unit in zip(found.groups(), _UNITS_S, strict=True) if n] if found else []
    seconds = sum(number * unit for number, unit in parts)
    if not parts or seconds < least_s:
        raise LabError(f"{option} {text}: give a time with its unit, such as 100ms, 90s or 1h30m")
    return seconds


def parse_gpus(text: str, there: int) -> tuple[int, ...]:
    """The numbers of GPUs in ``0,1``; `LabError` for what is none of the ``there`` that programs here see."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words) or len(set(words)) < len(words):
        raise LabError(f"--gpus {text}: give numbers of GPUs, each once, such as 0,1")
    numbers = tuple(int(word) for word in words)
    if max(numbers) >= there:
        have = f"GPUs 0 to {there - 1}" if there > 1 else "GPU 0 alone" if there else "none"
        raise LabError(f"--gpus {text}: there is no GPU {max(numbers)} here; programs see {have}")
    return numbers
