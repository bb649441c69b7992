"""Try cheats in a copy of the lab: the copy in, what each has reached out, a line of JSON each.

python -m tests.grading.drive LAB CHEATS default|isolated

A cheat has reached something when its part passed, when a file of the lab, of the grades or of what was
handed in has changed, when one of its processes is still there, when it has been heard on the network, or
when the grader is left with less of the machine.
"""

import hashlib
import io
import json
import os
import resource
import shutil
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

HERE = Path(__file__).resolve().parent


def hand_in(cheat: Path, folder: Path, lab: Path) -> str:
    """Lay a cheat down as a learner would hand it in; the part that it is for."""
    from labcode.grading import catalogue

    text = cheat.read_text(encoding="utf-8")
    short = text.partition("part: ")[2].split()[0]
    exercise, part = catalogue.find(short)
    assert part is not None
    place, solution = folder / exercise.path(part), lab / "solutions" / exercise.path(part)
    if cheat.stem == "folder_is_symlink":
        place.parent.parent.mkdir(parents=True)
        place.parent.symlink_to(solution.parent)
        return short
    place.parent.mkdir(parents=True)
    if cheat.stem == "answer_is_symlink":
        place.symlink_to(solution)
    elif cheat.stem == "answer_is_hard_link":
        os.link(solution, place)
    else:
        shutil.copy(cheat, place)
    return short


def state(*tops: Path) -> dict[str, str]:
    """The digests of all files, and who may do what with them."""
    return {
        str(path): f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for top in tops
        for path in ([top] if top.is_file() else top.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }


def standing() -> tuple[int, set[int], tuple[int, int]]:
    """What this process has of the machine: its rank, processors, and time."""
    most = resource.getrlimit(resource.RLIMIT_CPU)
    return os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0), most


def left(mark: str) -> list[int]:
    """Processes that name the answer, or what a cheat leaves behind, among their words."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if int(place.name) != os.getpid() and (mark.encode() in words or b"\x0098765\x00" in words):
            found.append(int(place.name))
    return found


def attempt(lab: Path, cheat: Path, isolated: bool, folder: Path, door: socket.socket) -> dict[str, Any]:
    """What one cheat has reached."""
    from labcode.grading import grades, run

    short = hand_in(cheat, folder, lab)
    for place in folder.rglob("*"):
        if place.suffix in (".py", ".cu") and not place.is_symlink():
            (place.parent / "port.txt").write_text(str(door.getsockname()[1]))
    before, target, out = state(lab, folder), lab / "grades.json", io.StringIO()
    rank = standing()
    flags: dict[str, Any] = {"hint": False, "watch": False, "reset": None, "solutions": False}
    run.main(
        [short],
        **flags,
        console=Console(file=out, width=200),
        root=lab,
        answers=folder,
        grades=target,
        isolated=isolated,
    )
    (verdict,) = grades.read(target).parts
    written = target.read_bytes()
    time.sleep(0.5 if "child" in cheat.stem or "rewritten" in cheat.stem else 0)
    reached = ["passed"] if verdict.status == "passed" else []
    after = state(lab, folder)
    after.pop(str(target))
    reached += sorted(name for name in before | after if before.get(name) != after.get(name))
    reached += ["the grader's rank"] if standing() != rank else []
    for kept in Path("/dev/shm").glob("*labcode-left-98765"):
        reached.append(str(kept))
        kept.unlink()
    reached += ["grades"] if target.read_bytes() != written else []
    for number in left(str(folder)):
        reached.append(f"process {number}")
        os.kill(number, 9)
    target.unlink()
    try:
        door.accept()[0].close()
        reached.append("network")
    except BlockingIOError:
        pass
    return {"cheat": cheat.stem, "reached": reached, "said": [verdict.headline, *verdict.details][:3]}


def main(lab: Path, cheats: Path, mode: str) -> None:
    """Try all."""
    from labcode.grading import gpu, needs, task
    from labcode.grading.records import Verdict

    def measured(file: Path) -> Verdict:
        program = lab / f"fake_measure{file.suffix}"
        measure = gpu.measure_python if file.suffix == ".py" else gpu.measure_cuda
        return Verdict("passed", str(measure(program, file)))

    beside = task.beside
    needs.has = lambda _: True  # type: ignore[assignment]
    task.beside = lambda e, p, what: SimpleNamespace(grade=measured) if what == "gpu" else beside(e, p, what)  # type: ignore
    gpu._built = lambda program, place: _built(gpu, program, place)
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.setblocking(False)
        for cheat in sorted(path for path in cheats.iterdir() if path.suffix in (".py", ".cu")):
            folder = lab.parent / f"handed-in-{cheat.stem}"
            folder.mkdir()
            print(json.dumps(attempt(lab, cheat, mode == "isolated", folder, door)), flush=True)


def _built(gpu: Any, program: Path, place: Any) -> Path:
    """As on a machine with a GPU."""
    binary: Path = place.folder / program.stem
    gpu._compile(program, place, binary, "-gencode=arch=compute_90a,code=sm_90a")
    return binary


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
