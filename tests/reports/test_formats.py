"""What a format declares that it can do; `tests/test_new.py` has a format that can do nothing."""

from pathlib import Path

import pytest

from labcode import reports
from labcode.reports import FORMATS, VERBS, Format, imported
from labcode.reports.common import SUFFIXES


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_declared_is_there(kind: reports.Kind, verb: str) -> None:
    path = getattr(FORMATS[kind], verb)
    assert (path is None) == (kind not in reports.able(verb))
    assert path is None or imported(path) is not None


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["opens", "versions", "facts", "tables", "report"])
def test_what_else_is_declared_is_there(kind: reports.Kind, name: str) -> None:
    path = getattr(FORMATS[kind], name)
    assert path is None or imported(path) is not None


def test_a_verb_cannot_be_forgotten() -> None:
    with pytest.raises(TypeError, match="missing 14 required positional arguments: 'opens', 'versions'"):
        Format(kind="nsys", what="a stub")  # type: ignore[call-arg]


def test_the_longest_end_of_a_name_tells_the_kind() -> None:
    ends = [(end, kind) for kind, some in SUFFIXES.items() for end in some if kind != "ranks"]
    assert len({end for end, _ in ends}) == len(ends)
    assert [reports.kind_of(Path(f"A{end.upper()}")) for end, _ in ends] == [kind for _, kind in ends]
    assert reports.kind_of(Path("a.power.json.gz")) == "kineto" and reports.kind_of(Path("a")) == "nsys"
