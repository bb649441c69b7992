"""What pages hold of other projects is named with its license."""

import re
from importlib import metadata
from pathlib import Path

import pytest

from labcode.book import embedded
from labcode.errors import ToolError

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = {one.metadata["Name"].lower().replace("-", "_") for one in metadata.distributions()}


def test_each_package_states_a_license_and_carries_its_text() -> None:
    table = embedded.table()
    assert list(table["package"]) == list(embedded.EMBEDDED) and (table["license"] != "").all()
    texts = embedded.texts()
    for holder in ("the Sphinx team", "Bokeh Contributors", "Fonticons", "Bitstream", "Bootstrap", "GitHub"):
        assert holder.lower() in texts.lower(), holder


def test_the_theme_and_extensions_that_pages_use_are_among_them() -> None:
    conf = (ROOT / "conf.py").read_text(encoding="utf-8")
    named = set(re.findall(r"\b(sphinx_\w+|myst_nb)\b", conf)) - {"sphinx_autobuild"}
    known = {name.replace("-", "_") for name in embedded.EMBEDDED}
    assert {name for name in named if name in INSTALLED} <= known


def test_one_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(embedded.EMBEDDED, "no-such-package", "nothing")
    with pytest.raises(ToolError, match="no-such-package is not installed"):
        embedded.table()
