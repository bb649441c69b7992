"""Grading on a machine without a GPU loads nothing that drives one."""

import subprocess
import sys

FORBIDDEN = (
    "torch",
    "cupy",
    "pynvml",
    "nvtx",
    "labcode.kernels",
    "labcode.experiments",
    "labcode.workloads",
    "labcode.capture",
    *(f"labcode.hardware.{name}" for name in ("driver", "host", "management", "needs", "permissions")),
)


def test_the_grader_imports_nothing_of_the_making_wing() -> None:
    code = f"""
import sys
from labcode.grading import catalogue, grade, gpu, run, worker, execution, generate, progress, sheet, task
from labcode.store import repository_root
root = repository_root() / "solutions"
for exercise in catalogue.EXERCISES:
    for part in exercise.parts:
        if part.is_sheet:
            sheet.read(root, exercise, part).answers()
        elif not part.needs:
            task.read(exercise, part)
print([name for name in sys.modules for top in {FORBIDDEN} if name == top or name.startswith(top + ".")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
