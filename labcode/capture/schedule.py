"""When experiments run: what they took on the shipped set in; an order and estimates out.

Each GPU measures one experiment at a time, those that depend on the host nothing beside them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from labcode import store
from labcode.capture.experiment import Experiment
from labcode.errors import InputError, LabError

_PAGE_USES = re.compile(r"\{captures-used\}([\w \t,-]+)")
_DAMPING_S = 60.0  # of shipped time: how much has to be done before this machine's own pace counts


def shipped_seconds() -> dict[str, float]:
    """How long each experiment took on the set that ships with the book; empty where that is not at hand.

    It is looked for among the sets, and in the checkout where those are elsewhere (``$LABCODE_SETS``).
    """
    folders = [root / store.SHIPPED_SET for root in (store.sets_root(), store.repository_root() / "captures")]
    folder = next((one for one in folders if (one / "manifest.json").is_file()), None)
    if folder is None:
        return {}
    try:
        captures = store.parse_manifest(store.load_json(folder / "manifest.json"), folder)
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


def alone(experiment: Experiment) -> bool:
    """Whether nothing runs beside an experiment on this GPU or another."""
    return experiment.host_bound or experiment.needs_gpus > 1


def next_of(
    waiting: Sequence[Experiment], measured: Sequence[Experiment], filing: bool, free: int, gpus: int
) -> Experiment | None:
    """The experiment that can begin now, or None: one that runs alone waits until none is ``measured`` any
    more, nor exported and filed.

    With one GPU the first in line is waited for; with several whoever can run beside the others goes first.
    """
    if any(map(alone, measured)):
        return None
    for experiment in waiting if gpus > 1 else waiting[:1]:
        if not (measured or filing) if alone(experiment) else free:
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
        """Seconds until all of the experiments are measured: shared by the GPUs, but for what runs alone."""
        every = list(experiments)
        single = [experiment for experiment in every if alone(experiment)]
        return self.expect(single) + self.expect([e for e in every if e not in single]) / gpus


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
