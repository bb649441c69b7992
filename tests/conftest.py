"""Tests marked ``gpu`` run where the driver shows a GPU, and say “not run” elsewhere."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.support import settled

if TYPE_CHECKING:
    from tests.book.check_browser import Browser

os.environ.pop("NOX_CURRENT_SESSION", None)  # else messages name commands for nox
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every program that tests start compiles the lab anew
sys.dont_write_bytecode = False
settings.register_profile("nightly", max_examples=2000, deadline=None)
settings.register_profile("change", max_examples=40, deadline=None)  # pandas' first call takes long
settings.load_profile("change")
signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs in the background would be deaf to it


@cache
def gpus() -> int:
    """How many GPUs the driver of this machine lists."""
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False)
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m gpu`` only files with such tests: a GPU machine may lack what the others import."""
    if config.getoption("markexpr") != "gpu" or collection_path.suffix != ".py":
        return None
    return None if "pytest.mark.gpu" in collection_path.read_text(encoding="utf-8") else True


@pytest.hookimpl(tryfirst=True)  # before those that -m asks for are picked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none; leave to the night what has passed as it is."""
    names = {item.nodeid.partition("[")[0] for item in items}
    done = settled.among(names)
    for item in items:
        if item.nodeid.partition("[")[0] in done:
            item.add_marker(pytest.mark.slow)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and gpus() == 0:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="not run: needs an NVIDIA GPU"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that did not run for want of a GPU."""
    skipped = terminalreporter.stats.get("skipped", ())
    count = sum("needs an NVIDIA GPU" in str(report.longrepr) for report in skipped)
    if count:
        terminalreporter.write_line(f"not run: {count} tests that need an NVIDIA GPU")


@pytest.fixture(scope="session")
def _chromium() -> Iterator[str]:
    from tests.book.check_browser import browser, find_browser

    path = find_browser()
    if path is None:
        pytest.skip("no Chromium here")
    with browser(path) as listens:
        yield listens


@pytest.fixture
def tab(_chromium: str) -> Iterator[Browser]:
    """A new tab of a browser."""
    from tests.book.check_browser import new_tab

    with new_tab(_chromium) as opened:
        yield opened


@pytest.fixture
def compiled_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that are measured need not compile what they import: it lies beside the modules."""
    from labcode.experiments.lab.report_speed import side_by_side

    measure = side_by_side.measure
    monkeypatch.setattr(
        side_by_side,
        "measure",
        lambda argv, output, _=None, deadline=None: measure(argv, output, None, deadline),
    )


@pytest.fixture(scope="session")
def _templates(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from jinja2 import FileSystemBytecodeCache
    from sphinx import jinja2glue

    class Compiled(FileSystemBytecodeCache):
        def get_cache_key(self, name: str, filename: str | None = None) -> str:
            """Wherever a checkout lies; what was compiled of another text is not taken."""
            return super().get_cache_key(name, "/".join(Path(filename or "").parts[-3:]))

    compiled = Compiled(str(tmp_path_factory.mktemp("templates")))
    return functools.partial(jinja2glue.SandboxedEnvironment, bytecode_cache=compiled)


@pytest.fixture(scope="session")
def _packages() -> Any:
    """What is installed, read once: each build asks seven times."""
    from importlib import metadata

    class Package:
        def __init__(self, one: metadata.Distribution) -> None:
            self.one, self.entry_points = one, one.entry_points

        def __getattr__(self, name: str) -> Any:
            return getattr(self.one, name)

    kept = [Package(one) for one in metadata.distributions()]
    return lambda **asked: metadata.Distribution.discover(**asked) if asked else iter(kept)


@pytest.fixture(scope="session")
def _executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("executed")


@pytest.fixture
def builds_at_hand(_templates: Any, _packages: Any, _executed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Builds share compiled templates, and the outputs of equal pages: the folder of those."""
    monkeypatch.setattr("importlib.metadata.distributions", _packages)
    monkeypatch.setattr("sphinx.jinja2glue.SandboxedEnvironment", _templates)
    return _executed
