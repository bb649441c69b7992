"""Where reports are read: in this process, by workers that may die, by a scheduler that may go away."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labcode.analysis.ranks.spread import FEW, Lost, Spreader
from labcode.errors import LabError
from tests.support import ranks

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for number in range(FEW + 2):
        (tmp_path / str(number)).write_bytes(b"x" * number)
    return sorted(tmp_path.iterdir())


@pytest.fixture
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with (
        dask.config.set({"temporary-directory": str(tmp_path_factory.mktemp("dask"))}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
        ) as cluster,
    ):
        yield cluster


def test_few_files_are_read_in_this_process(files: list[Path]) -> None:
    with Spreader(files=3) as spreader:
        missing = files[0].with_name("none")
        assert spreader.map(ranks.size, [files[1], missing, files[2]]) == (
            [1, 2],
            [Lost(missing, "No such file or directory; check the path")],
        )


def test_without_dask_no_cluster_reads(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with Spreader(files=len(files)) as spreader:
        assert spreader.map(ranks.size, files)[0] == list(range(10))
    with pytest.raises(LabError, match="--scheduler tcp://x:1: Dask is not installed"):
        Spreader("tcp://x:1", files=1)


def test_a_worker_for_each_processor(
    files: list[Path], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("labcode.analysis.ranks.spread.usable_cpus", lambda: 3)
    before = set(multiprocessing.active_children())
    with Spreader(files=len(files)) as spreader:
        assert spreader.map(ranks.size, files)[0] == list(range(10))
        workers = set(multiprocessing.active_children()) - before
        assert 1 <= len(workers) <= 3  # as many as there was work for
    assert not any(worker.is_alive() for worker in workers)
    assert list(folder.iterdir()) == []


def test_workers_end_with_who_started_them(files: list[Path]) -> None:
    program = (
        "import multiprocessing, os, signal\n"
        "from pathlib import Path\n"
        "from labcode.analysis.ranks.spread import Spreader\n"
        "from tests.support.ranks import size\n"
        f"spreader = Spreader(files={len(files)})\n"
        f"spreader.map(size, list(Path({str(files[0].parent)!r}).iterdir()))\n"
        "print(*(one.pid for one in multiprocessing.active_children()), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=_with_this_tree()
    )
    pids = ended.stdout.split()
    assert ended.returncode == -signal.SIGKILL and pids, ended.stderr
    until = time.monotonic() + 60
    while any(map(_runs, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(map(_runs, pids))


def _runs(pid: str) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_program_that_starts_itself_anew_is_told(tmp_path: Path, files: list[Path]) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from pathlib import Path\n"
        "from labcode.analysis.ranks.spread import Spreader\n"
        "from tests.support.ranks import size\n"
        f"Spreader(files={len(files)}).map(size, [Path(name) for name in {list(map(str, files))}])\n"
    )
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, env=_with_this_tree())
    assert ended.returncode == 1
    assert 'put what reads the reports under if __name__ == "__main__":' in ended.stderr


def test_workers_import_nothing_of_the_current_folder(files: list[Path], tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("signal", "socket", "pickle", "runpy", "queue", "selectors", "tempfile", "numpy"):
        (theirs / f"{name}.py").write_text("open('ran', 'w').close()\nraise ImportError\n")
    program = tmp_path / "program.py"
    program.write_text(
        "from pathlib import Path\n"
        "from labcode.analysis.ranks.spread import Spreader\n"
        "from tests.support.ranks import size\n"
        'if __name__ == "__main__":\n'
        f"    names = {list(map(str, files))}\n"
        "    with Spreader(files=len(names)) as spreader:\n"
        "        done, lost = spreader.map(size, [Path(name) for name in names])\n"
        "    print(len(done), len(lost))\n"
    )
    words = [sys.executable, program]
    ended = subprocess.run(words, capture_output=True, text=True, env=_with_this_tree(), cwd=theirs)
    assert not (theirs / "ran").exists(), ended.stderr
    assert ended.stdout.split() == [str(len(files)), "0"], ended.stderr


def _with_this_tree() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.mark.parametrize("tasks", [128, 5])
def test_a_worker_that_dies_loses_its_file_alone(
    files: list[Path], tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labcode.analysis.ranks.spread.TASKS", tasks)  # three files go together
    with Spreader(files=len(files)) as spreader:
        done, lost = spreader.map(ranks.dies_of_two, files)
    assert done == [0, 1, *range(3, 10)]
    assert [(one.path, one.why) for one in lost] == [
        (files[2], "the worker that read it died, twice (out of memory?)")
    ]


class _Recomputed:
    """A future that was done; then its worker died, and the scheduler has it worked out anew."""

    status = "lost"

    def result(self) -> bytes:
        return pickle.dumps([(7, None)])

    def exception(self) -> None: ...

    def release(self) -> None: ...


def test_what_a_dead_worker_had_done_is_done_anew(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "as_completed", list)
    with Spreader(files=1) as spreader:
        spreader._client = SimpleNamespace(map=lambda *_, **__: [_Recomputed() for _ in files])
        assert spreader.map(ranks.size, files) == ([7] * len(files), [])


def test_a_scheduler_by_its_address(files: list[Path], scheduler: Any) -> None:
    with Spreader(scheduler.scheduler_address, files=2) as spreader:
        assert spreader.map(ranks.size, files)[0] == list(range(10))


def test_a_scheduler_that_goes_away(files: list[Path], scheduler: Any) -> None:
    with Spreader(scheduler.scheduler_address, files=2) as spreader:
        threading.Timer(0.5, scheduler.close).start()
        with pytest.raises(
            LabError, match=r"the Dask scheduler went away after \d of 10 reports; start it again"
        ):
            spreader.map(ranks.slowly, files)


def test_schedulers_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labcode.analysis.ranks.spread._ANSWER_S", 0.3)
    for name, message in (
        ("tcp://127.0.0.1:9", "no Dask scheduler answers there"),
        ("nonsense://x", r"no Dask scheduler answers there \(ValueError\)"),
        (str(tmp_path / "x.json"), "no such file; name the one that dask scheduler wrote"),
        ("slurm", "say how many jobs, such as slurm:16"),
        ("slurm:many", "say how many jobs, such as slurm:16"),
        ("pbs:2", "dask-jobqueue is not installed"),
    ):
        with pytest.raises(LabError, match=message):
            Spreader(name, files=1)


def test_jobs_of_a_queue(files: list[Path], scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    scale = scheduler.scale

    def jobs(*numbers: int, **words: int) -> None:  # a cluster that closes scales itself to 0
        asked.append(words)
        scale(*numbers or (1,))

    monkeypatch.setattr(scheduler, "scale", jobs)
    made = SimpleNamespace(SLURMCluster=lambda: scheduler)
    monkeypatch.setitem(sys.modules, "dask_jobqueue", made)
    with Spreader("slurm:3", files=1) as spreader:
        assert spreader.map(ranks.size, files)[0] == list(range(10)) and asked[0] == {"jobs": 3}

    def unconfigured() -> None:
        raise ValueError("You must specify how many cores to use per job")

    made.SLURMCluster = unconfigured
    with pytest.raises(LabError, match=r"dask-jobqueue cannot submit \(You must specify how many cores"):
        Spreader("slurm:3", files=1)
