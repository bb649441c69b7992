"""Old names of modules: each is the module of the new name, and costs nothing until it is asked for."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from labcode import MOVED

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_is_the_module_of_the_new_one(old: str) -> None:
    new = import_module(MOVED[old])
    assert import_module(old) is new
    assert new.__name__ == MOVED[old] and new.__spec__ is not None and new.__spec__.name == MOVED[old]
    package, _, name = old.rpartition(".")
    assert getattr(import_module(package), name) is new


def test_no_file_of_an_old_name_is_left_to_hide_the_new_one() -> None:
    paths = [ROOT / old.replace(".", "/") for old in MOVED]
    files = [file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py")]
    assert [file for file in files if file.exists()] == []


def test_an_old_name_alone_suffices() -> None:
    code = "from labcode.analysis.rules.driver import diagnose; print(diagnose.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "labcode.verbs.diagnose.verdicts\n"
    with pytest.raises(ModuleNotFoundError, match=r"labcode\.analysis\.drivers"):
        import_module("labcode.analysis.drivers")
