"""The environments of nox: shared, filled once, by one process at a time; and what is asked for before."""

import importlib.util
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("nox")
ROOT = Path(__file__).parent.parent


class Session:
    """Stands in for one of nox, and writes down what it would have run."""

    def __init__(self, folder: Path) -> None:
        self.cache_dir = folder / "envs" / ".cache"
        self.cache_dir.mkdir(parents=True, exist_ok=True)
        self._env: dict[str, str] = {}
        self.asked: list[str] = []
        self.fails = False

    @property
    def env(self) -> dict[str, str]:
        return self._env

    def run_install(self, *words: object) -> None:
        if "virtualenv" in words:
            python = Path(str(words[-1])) / "bin" / "python"
            python.parent.mkdir(parents=True, exist_ok=True)
            python.touch()
            self.asked.append("made")
        elif self.fails:
            raise KeyboardInterrupt
        else:
            self.asked.append(" ".join(map(str, words[words.index("constraints.txt") + 1 :])))

    def run(self, *words: object) -> str:
        return " ".join(map(str, words))


@pytest.fixture(scope="module")
def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("noxfile_here", ROOT / "noxfile.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def noxfile(_loaded: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(_loaded, "ROOT", tmp_path)
    return _loaded


def asked(noxfile: ModuleType, folder: Path, name: str, *requirements: str) -> list[str]:
    session = Session(folder)
    python = noxfile.environment(session, name, *requirements)
    assert python("-m", "this") == f"{folder}/envs/shared-{name}/bin/python -m this"
    assert session.env["PATH"].startswith(f"{folder}/envs/shared-{name}/bin{os.pathsep}")
    return session.asked


def test_sessions_share_an_environment_and_add_to_it(noxfile: ModuleType, tmp_path: Path) -> None:
    assert asked(noxfile, tmp_path, "dev", ".[dev]") == ["made", ".[dev]"]
    assert asked(noxfile, tmp_path, "dev", ".[dev]") == []
    assert asked(noxfile, tmp_path, "dev", ".[dev]", "torch") == [".[dev] torch"]
    assert asked(noxfile, tmp_path, "dev", ".[dev]") == []
    assert asked(noxfile, tmp_path, "lab", ".") == ["made", "."]


def test_other_pins_are_installed_again(noxfile: ModuleType, tmp_path: Path) -> None:
    asked(noxfile, tmp_path, "dev", ".[dev]")
    (tmp_path / "constraints.txt").write_text("other")
    assert asked(noxfile, tmp_path, "dev", ".[dev]") == [".[dev]"]
    assert asked(noxfile, tmp_path, "dev", ".[dev]") == []


def test_what_was_interrupted_is_done_again(noxfile: ModuleType, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.fails = True
    with pytest.raises(KeyboardInterrupt):
        noxfile.environment(session, "dev", ".[dev]")
    assert asked(noxfile, tmp_path, "dev", ".[dev]") == [".[dev]"]
    (tmp_path / "envs/shared-dev/bin/python").unlink()  # as when the Python that it came from is gone
    assert asked(noxfile, tmp_path, "dev", ".[dev]")[0] == "made"


def test_one_process_at_a_time_fills_an_environment(noxfile: ModuleType, tmp_path: Path) -> None:
    found: list[list[str]] = []
    other = threading.Thread(target=lambda: found.append(asked(noxfile, tmp_path, "dev", ".[dev]")))
    (tmp_path / "envs").mkdir()
    with noxfile.alone(tmp_path / "envs" / "shared-dev"):
        other.start()
        other.join(0.2)
        assert other.is_alive() and not (tmp_path / "envs" / "shared-dev").exists()
    other.join(600)
    assert found == [["made", ".[dev]"]]


def test_a_pdf_needs_its_programs_before_anything_is_installed(tmp_path: Path) -> None:
    (tmp_path / "latexmk").write_text("#!/bin/sh\n")
    (tmp_path / "latexmk").chmod(0o755)
    words = [sys.executable, "-m", "nox", "--envdir", tmp_path / "envs", "-s", "pdf"]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "a PDF needs xelatex (of TeX Live), not found here" in done.stderr
    assert not (tmp_path / "envs").exists() or not list((tmp_path / "envs").glob("*/bin"))


def test_readme_names_all_sessions() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    told = text[text.index("`nox --list` names all sessions:") :].partition("Those that need")[0]
    written = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    sessions = re.findall(r"^@session\ndef (\w+)", written, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", told)) == set(sessions) and len(sessions) > 15
