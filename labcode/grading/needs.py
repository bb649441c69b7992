"""What this machine has of what exercises need: names of needs in, the missing ones out.

The grader works on machines without a GPU and imports neither torch nor any module that drives one. Only a
part that needs something gets here, and `labcode.hardware.needs`, which is of the making wing, is imported
only then: it asks the CUDA driver in a process of its own and looks for packages without importing them.
`labcode doctor` says more.
"""

import functools
from collections.abc import Sequence

from labcode.grading.records import Need

_WORDS: dict[Need, str] = {
    "gpu": "a GPU",
    "2 gpus": "2 GPUs",
    "nsys": "nsys",
    "ncu": "ncu",
    "nvcc": "nvcc",
    "torch": "PyTorch",
    "any torch": "PyTorch (for the CPU is enough)",
}


def missing(wanted: Sequence[Need]) -> tuple[Need, ...]:
    """Those of ``wanted`` that this machine lacks."""
    return tuple(need for need in wanted if not has(need))


@functools.cache
def has(need: Need) -> bool:
    """Whether this machine has what a need names; asked once per process."""
    from labcode.hardware.needs import unmet

    return not unmet([need])


def in_words(needs: Sequence[Need]) -> str:
    """Needs as text: ``a GPU and nvcc``; ``nothing`` for none."""
    words = [_WORDS[need] for need in needs if not (need == "gpu" and "2 gpus" in needs)]
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "nothing"
