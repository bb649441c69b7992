"""What a format declares that it can do, and a format that can do nothing."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from labcode import reports
from labcode.cli.main import program
from labcode.reports import FORMATS, VERBS, Format, imported

NOTHING = Format(what="a stub", suffixes=(".stub",), **dict.fromkeys((*VERBS, "facts", "tables", "page")))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_declared_is_there(kind: reports.Kind, verb: str) -> None:
    path = getattr(FORMATS[kind], verb)
    assert (path is None) == (kind not in reports.able(verb))
    assert path is None or imported(path) is not None


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["facts", "tables", "page"])
def test_what_else_is_declared_is_there(kind: reports.Kind, name: str) -> None:
    path = getattr(FORMATS[kind], name)
    assert path is None or imported(path) is not None


def test_a_verb_cannot_be_forgotten() -> None:
    with pytest.raises(TypeError, match="missing 11 required keyword-only arguments: 'stats', 'export'"):
        Format(what="a stub", suffixes=(".stub",))  # type: ignore[call-arg]


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "roofline"])
def test_a_format_that_can_do_nothing_is_refused_in_one_line(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FORMATS, "stub", NOTHING)  # type: ignore[misc]
    file = tmp_path / "a.stub"
    file.write_text("")
    more = {
        "compare": [str(file)],
        "export": ["-o", "out"],
        "timeline": ["-o", "a.svg"],
        "flame": ["-o", "a.svg"],
    }
    with pytest.raises(reports.LabError) as error:
        CliRunner().invoke(
            program(), [verb, str(file), *more.get(verb, [])], catch_exceptions=False, standalone_mode=False
        )
    says = str(error.value)
    assert says.startswith(f"{file}: a stub; `labcode {verb}` reads ."), says
    assert says.endswith(" and not this, which is for no command")
    assert "\n" not in says
