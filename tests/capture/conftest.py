"""A laboratory without a GPU: a repository with one program, a fake nsys, small experiments."""

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from labcode.capture import catalogue, runner
from labcode.capture.catalogue import GPUS, Experiment, Run
from labcode.hardware import host, needs
from tests.capture import fakes
from tests.support.programs import python_program


class Lab:
    """Where things lie in the laboratory, and `capture` with what was printed kept."""

    def __init__(self, home: Path, sets: Path) -> None:
        self.home, self.sets = home, sets
        self.program = home / "program.py"
        self.archive = home.parent / "out.tar"
        self.printed = ""

    def capture(self, *names: str, **options: object) -> int:
        """Capture into the set ``mine``."""
        stream = io.StringIO()
        console = Console(file=stream, width=200)
        try:
            return runner.capture(
                list(names),
                "mine",
                doctor=lambda: {"problems": []},
                console=console,
                **{  # type: ignore[arg-type]
                    "machine": lambda: {"gpus": [{"name": "Fake GPU"}], "gpu_count": 2, "driver": "1.2"},
                    **options,
                },
            )
        finally:
            self.printed = stream.getvalue()

    def tree(self) -> dict[str, bytes]:
        """Every file below the folder of sets, with its bytes."""
        return {
            path.relative_to(self.sets).as_posix(): path.read_bytes()
            for path in sorted(self.sets.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """An empty laboratory."""
    return make_lab(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def _captured_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the set ``mine`` (experiments alpha and beta) and its archive ``out.tar``."""
    folder = tmp_path_factory.mktemp("captured")
    with pytest.MonkeyPatch.context() as monkeypatch:
        lab = make_lab(folder, monkeypatch)
        assert lab.capture("alpha", "beta", archive=folder / "out.tar") == 0, lab.printed
    return folder


@pytest.fixture
def captured(lab: Lab, _captured_once: Path) -> Lab:
    """A laboratory with the set ``mine``: alpha and beta captured, and an archive of them."""
    shutil.copytree(_captured_once / "sets", lab.sets)
    shutil.copy(_captured_once / "out.tar", lab.archive)
    return lab


def make_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The laboratory, in ``tmp_path``."""
    home, sets, tools = tmp_path / "repository", tmp_path / "sets", tmp_path / "bin"
    for folder in (home, tools):
        folder.mkdir()
    (home / "program.py").write_text(fakes.PROGRAM)
    python_program(tools / "nsys", fakes.FAKE_NSYS)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv("LABCODE_HOME", str(home))
    monkeypatch.setenv("LABCODE_SETS", str(sets))
    monkeypatch.setenv("LABCODE_CACHE", str(tmp_path / "cache"))
    unset = ("FAKE_NSYS", "FAKE_PROGRAM", "FAKE_VARIANT", "FAKE_LOG", "FAKE_WAITS")
    for name in ("LABCODE_NSYS", "CUDA_VISIBLE_DEVICES", *unset):
        monkeypatch.delenv(name, raising=False)
    baseline, improved = (Run(v, ("--variant", v, "--gpus", GPUS)) for v in ("baseline", "improved"))
    sources = ("program.py",)
    experiments = (
        Experiment(
            "alpha", "Two runs under nsys", "nsys", "program", (baseline, improved), sources, 1, 120.0
        ),
        Experiment(
            *("beta", "One measurement", "bench", "program", (Run("record"),), sources, 1, 120.0),
            host_bound=True,
        ),
        Experiment("gamma", "Needs more", "bench", "program", (Run("record"),), sources, 3, 120.0),
    )
    monkeypatch.setattr(catalogue, "EXPERIMENTS", {e.id: e for e in experiments})
    monkeypatch.setattr(needs, "gpu_count", lambda: 2)
    monkeypatch.setattr(host, "pace_s", lambda: 0.005)
    monkeypatch.setattr(host, "stolen_s", lambda: 0.0)
    return Lab(home, sets)
