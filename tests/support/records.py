"""Programs of the lab, run in this process: a module and its flags in, the record that it wrote out."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any


def recorded(program: ModuleType, folder: Path, *flags: str) -> dict[str, Any]:
    """The record of a program that has to succeed."""
    path = folder / "record.json"
    assert program.main([*flags, "--json", str(path)]) == 0
    found: dict[str, Any] = json.loads(path.read_text())
    return found
