"""The captures that ship with the book."""

from pathlib import Path

from labcode import store
from labcode.capture import verify


def test_the_sets_are_whole_fresh_and_fit_to_publish() -> None:
    root = Path(store.__file__).resolve().parents[1] / "captures"
    names = sorted(path.parent.name for path in root.glob("*/manifest.json"))
    assert store.SHIPPED_SET in names
    assert [f"{name}: {finding}" for name in names for finding in verify.verify(name)] == []
