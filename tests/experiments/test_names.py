"""Programs by the names that users type and captures hold, whichever folder they lie in."""

import importlib
import runpy
import sys
from collections.abc import Iterator

import pytest

from labcode import store
from labcode.workloads import NAMES, located


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What is imported by its short name is not run by it: other tests do that."""
    yield
    for name in [name for name in sys.modules if name.startswith("labcode.workloads.")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("timeline_basics", "nsys.timeline_basics.program"),
        ("scaling.training", "scaling.training.program"),
        ("llama.sharded", "scaling.llama_sharded.program"),
        ("older.flags", "compute.attention.older.flags"),
        ("cuda", "shared.cuda"),
        ("gpu", ""),
        ("nothing", ""),
        ("nsys.timeline_basics.loaders", ""),
    ],
)
def test_a_name_is_found_in_its_folder(name: str, module: str) -> None:
    assert located(f"labcode.workloads.{name}") == (module and f"labcode.experiments.{module}")
    if module:
        known = importlib.import_module(f"labcode.experiments.{module}")
        assert importlib.import_module(f"labcode.workloads.{name}") is known
    else:
        assert located(f"elsewhere.{name}") == ""


def test_names_of_before_stand_for_what_there_is() -> None:
    for name in NAMES:
        assert importlib.util.find_spec(located(f"labcode.workloads.{name}")) is not None


def test_what_captures_ran_can_be_run_by_that_name() -> None:
    ran = {
        run.argv[2]
        for name in store.list_sets()
        for record in store.load_set(name).experiments.values()
        for run in record.runs.values()
        if run.argv[1:2] == ("-m",)
    }
    assert len(ran) > 30
    lost = {one for one in ran if importlib.util.find_spec(one) is None}
    assert lost == set()


def test_a_program_runs_as_main_under_its_short_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["x", "--list"])
        runpy.run_module("labcode.workloads.llama.sharded", run_name="__main__", alter_sys=True)
    assert (ended.value.code, capsys.readouterr().out) == (0, "train\n")


def test_a_name_that_there_is_not_says_so() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'labcode\.workloads\.nothing'"):
        importlib.import_module("labcode.workloads.nothing")
