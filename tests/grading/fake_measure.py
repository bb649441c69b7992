"""Stands for a program that measures Python on a GPU: whatever the answer is, it finds it wrong.

python fake_measure.py FILE RECORD SEED
"""

import sys
from pathlib import Path

from labcode.grading.harness.common import WrongAnswerError, learners, report


def main(file: Path, record: Path) -> None:
    """Load the answer, and write that it is wrong."""

    def measure() -> dict[str, object]:
        learners(file, "serve")
        raise WrongAnswerError("wrong, as ever")

    report(record, file, measure)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
