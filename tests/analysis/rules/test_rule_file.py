"""Rules in a file of one's own: they judge beside the others, and what is wrong with one is said by name."""

import io
import json
from pathlib import Path

import pytest

from labcode.errors import LabError
from labcode.verbs.diagnose.verdicts import gather, list_rules, run
from tests.support.exports import call, kernel, make_export

HEAD = "from labcode.analysis.rules import CannotJudgeError, Finding, rule\n"
GOOD = """
@rule("few-kernels", title="Few kernels", advice="Launch more.")
def few_kernels(tables):
    print("counting")
    count = len(tables.kernels)
    return Finding(count < 5, f"{count} kernels", count, "kernels", 5, "kernels expected")
"""
BAD = """
@rule("divides", title="Divides by nothing")
def divides(tables):
    return 1 / 0

@rule("forgets", title="Returns nothing")
def forgets(tables):
    len(tables.kernels)

@rule("lists", title="Evidence of the wrong kind")
def lists(tables):
    return Finding(True, "m", 1, "a", 1, "b", evidence=[1, 2])

@rule("unsure", title="Cannot judge")
def unsure(tables):
    raise CannotJudgeError("there is nothing to see (record with --more)")

@rule("leaves", title="Ends the program")
def leaves(tables):
    raise SystemExit(3)
"""


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return make_export(
        tmp_path / "run.sqlite", kernels=[kernel(100, 900, correlation=1)], api=[call(50, 60, correlation=1)]
    )


def rule_file(tmp_path: Path, text: str, name: str = "mine.py") -> Path:
    file = tmp_path / name
    file.write_text(HEAD + text)
    return file


def verdicts(capture: Path, *files: Path, only: tuple[str, ...] = ()) -> dict[str, dict[str, object]]:
    text = io.StringIO()
    assert run(capture, fmt="json", only=only, rule_files=files, output=text) == 0
    return {verdict["rule"]: verdict for verdict in json.loads(text.getvalue())["verdicts"]}


def test_a_rule_of_a_file_judges_beside_the_others(capture: Path, tmp_path: Path) -> None:
    found = verdicts(capture, rule_file(tmp_path, GOOD))
    assert (found["few-kernels"]["status"], found["few-kernels"]["message"]) == ("found", "1 kernels")
    assert set(found) == {*verdicts(capture), "few-kernels"}


def test_what_rules_print_keeps_out_of_the_report(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts(capture, rule_file(tmp_path, "print('loading')\n" + GOOD))  # the JSON can be read
    assert capsys.readouterr().err == "loading\ncounting\n"


def test_only_one_rule(capture: Path, tmp_path: Path) -> None:
    file = rule_file(tmp_path, GOOD + BAD)
    assert list(verdicts(capture, file, only=("few-kernels",))) == ["few-kernels"]
    with pytest.raises(LabError, match="'few-kernel' is not a rule; did you mean few-kernels"):
        verdicts(capture, file, only=("few-kernel",))


def test_failures_are_named_and_lose_nothing(capture: Path, tmp_path: Path) -> None:
    found = verdicts(capture, rule_file(tmp_path, GOOD + BAD))
    assert found["few-kernels"]["status"] == "found"
    assert found["unsure"]["status"] == "could not judge"
    said = {name: found[name]["message"] for name in ("divides", "forgets", "lists", "leaves")}
    assert {found[name]["status"] for name in said} == {"failed"}
    assert said["divides"] == "rule divides failed: ZeroDivisionError: division by zero (mine.py, line 11)"
    assert said["forgets"] == "rule forgets failed: TypeError: it returned NoneType; a rule returns a Finding"
    assert said["lists"] == (
        "rule lists failed: TypeError: the finding's evidence is list; it should be DataFrame"
    )
    assert said["leaves"] == "rule leaves failed: SystemExit: 3 (mine.py, line 27)"


def test_an_id_that_is_taken(capture: Path, tmp_path: Path) -> None:
    file = rule_file(tmp_path, GOOD.replace("few-kernels", "idle-gaps"))
    rules, broken = gather([file])
    assert [one.name for one in broken] == ["idle-gaps"]
    assert broken[0].reason.endswith("mine.py: there is a rule named idle-gaps already; rename it")
    assert len(rules) == len({one.id for one in rules})


def test_a_rule_that_a_file_imports_is_no_other_rule(tmp_path: Path) -> None:
    file = rule_file(tmp_path, "from labcode.analysis.rules.idle import idle_gaps\n" + GOOD)
    assert gather([file])[1] == []


def test_the_list_has_them(tmp_path: Path) -> None:
    text = io.StringIO()
    list_rules(text, [rule_file(tmp_path, GOOD + BAD)])
    assert "few-kernels" in text.getvalue() and "idle-gaps" in text.getvalue()
    text = io.StringIO()
    list_rules(text, [rule_file(tmp_path, GOOD.replace("few-kernels", "idle-gaps"))])
    assert "left out: idle-gaps: " in text.getvalue()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", r"mine\.py: defines no rule; put @rule"),
        ("def f(:\n", r"mine\.py, line 2: SyntaxError: "),
        ("import no_such_package\n", r"mine\.py, line 2: ModuleNotFoundError: No module named 'no_such"),
        ("\n\nraise SystemExit(0)\n", r"mine\.py, line 4: SystemExit: 0; mend it"),
    ],
)
def test_a_file_without_rules_is_bad_input(capture: Path, tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(LabError, match=words):
        verdicts(capture, rule_file(tmp_path, text))


def test_no_such_file(capture: Path, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"other\.py: no such file; name a Python file"):
        verdicts(capture, tmp_path / "other.py")
    with pytest.raises(LabError, match=r"mine\.txt: not a Python file"):
        verdicts(capture, rule_file(tmp_path, GOOD, "mine.txt"))
