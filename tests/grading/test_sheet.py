"""Sheets of facts: what a learner's TOML is told when it cannot be read, is wrong, or is nearly right."""

from pathlib import Path

import pytest

from labcode.grading import grade, sheet
from labcode.grading.records import Exercise, Part
from labcode.grading.sheet import Answers, Interval, Misreading, Name, Names, Number, Share, Sheet

SOURCE = '''"""Detective x: one capture.

Look at it.
"""

from labcode.grading.sheet import Answers, Count, Interval, Misreading, Name, Names, Number, Share, Word

QUESTIONS = (
    Share("idle", "how idle it is"),
    Number("step_ms", "how long a step takes", unit="ms", within=0.05),
    Count("steps", "how many there are"),
    Word("cause", "what it waits for", words=("launches", "copies")),
    Name("kernel", "which kernel"),
)


def answers() -> Answers:
    """Fixed ones."""
    return Answers(
        {"idle": 0.4, "step_ms": 12.5, "steps": 7, "cause": "launches",
         "kernel": Names("gemm_tn", ("gemm_tn", "gemm_nn", "scale"))},
        [
            Misreading("that is the whole capture", {"idle": 0.9, "step_ms": 50.0}),
            Misreading("that is the whole capture's share", {"idle": 0.9}),
            Misreading("nothing is copied", {"cause": "copies"}),
        ],
        ["launches it is"],
    )
'''
RIGHT = {"idle": "0.41", "step_ms": "12.6", "steps": "7", "cause": '"launches"', "kernel": '"gemm_tn"'}


@pytest.fixture
def asked() -> Sheet:
    return Sheet(SOURCE, Path("a_x.py"))


def text(**changed: str) -> str:
    return "".join(f"{key} = {value}\n" for key, value in {**RIGHT, **changed}.items() if value)


def test_the_starter_says_what_is_asked(asked: Sheet) -> None:
    starter = asked.starter("nsys-ex99a")
    assert starter.startswith("# Detective x: one capture.\n#\n# Look at it.\n#\n# Grade it:")
    assert "labcode exercises nsys-ex99a" in starter and "nox -s exercises -- nsys-ex99a" in starter
    assert '# what it waits for: one of: launches, copies\ncause = ""\n' in starter
    assert "# how idle it is: a share from 0 to 1, within 0.02" in starter
    verdict = asked.judge(starter)
    assert verdict.status == "to do"
    assert verdict.headline == "still empty: idle, step_ms, steps, cause, kernel"


@pytest.mark.parametrize("name", ["gemm_tn", "GEMM_TN", "_tn", "void gemm_tn<float, 4>(float*)"])
def test_a_name_may_be_a_part_or_a_longer_form(asked: Sheet, name: str) -> None:
    assert asked.judge(text(kernel=f'"{name}"')).status == "passed"


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("idle", '"41 %"'),
        ("step_ms", '"12.6 ms"'),
        ("step_ms", '" 12600µs"'),
        ("step_ms", '"1.26e-2 s"'),
        ("step_ms", '"12.6"'),
        ("idle", '"41 percent"'),
        ("idle", '"0.41 idle"'),
        ("steps", '"7 whole steps"'),
        ("steps", '"7x"'),
        ("steps", '"7 steps/s"'),
        ("step_ms", '"0,012.6 ms"'),
        ("steps", "7.0"),
        ("cause", '"Launches"'),
    ],
)
def test_a_right_answer_may_be_written_otherwise(asked: Sheet, key: str, written: str) -> None:
    assert asked.judge(text(**{key: written})).status == "passed"
    assert asked.judge(text(step_ms='"12.6 s"')).status == "failed"


def test_right_answers_within_their_tolerance_pass(asked: Sheet) -> None:
    verdict = asked.judge(text())
    assert (verdict.status, verdict.headline, verdict.score) == ("passed", "passed: 5 answers", None)
    assert verdict.details == ("idle: 0.4, you said 0.41", "step_ms: 12.5, you said 12.6", "launches it is")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"idle": ""}, "idle: missing; write idle = …, a share from 0 to 1, within 0.02"),
        ({"idel": "0.4"}, "idel: no key of this sheet; did you mean idle?"),
        ({"other": "1"}, "other: no key of this sheet; there are idle, step_ms, steps, cause, kernel"),
        ({"idle": '"4 ms"'}, 'idle: should be a number such as 2.5, without a unit, not the text "4 ms"'),
        ({"step_ms": "true"}, "step_ms: should be a number such as 2.5 in ms, not true or false"),
        ({"step_ms": '"12 MB"'}, 'step_ms: should be a number such as 2.5 in ms, not the text "12 MB"'),
        ({"step_ms": "nan"}, "step_ms: should be a finite number"),
        ({"steps": "7.5"}, "steps: should be a whole number such as 12, not 7.5"),
        ({"cause": '"copy"'}, "cause: 'copy' is none of: launches, copies; did you mean 'copies'?"),
        ({"cause": "[1]"}, "cause: should be one of: launches, copies, not the list [1]"),
        ({"kernel": "3"}, "kernel: should be a name, or a part of it that no other has, not 3"),
        ({"step_ms": "12 ms"}, "not a TOML file: line 2, 'step_ms = 12 ms': "),
    ],
)
def test_what_cannot_be_read_is_told(asked: Sheet, changed: dict[str, str], message: str) -> None:
    verdict = asked.judge(text(**changed))
    assert verdict.status == "failed" and verdict.headline.startswith(message)


def test_all_that_is_wrong_with_a_sheet_is_told_at_once(asked: Sheet) -> None:
    verdict = asked.judge(text(idle="true", cause='"x"', steps='"many"'))
    assert [line.split(":")[0] for line in (verdict.headline, *verdict.details)] == ["idle", "steps", "cause"]


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"cause": '"copies"'}, 'cause: "copies" is not right: nothing is copied'),
        ({"idle": "0.9", "step_ms": "50"}, "idle: 0.9 is not right: that is the whole capture"),
        ({"idle": "0.9"}, "idle: 0.9 is not right: that is the whole capture's share"),
        (
            {"idle": "0.6"},
            "idle: 0.6 is not right: 1 minus the right share: the other part?",
        ),
        ({"idle": "0.379"}, "idle: 0.379 is not right"),  # more than two digits' rounding
        ({"idle": "0.2"}, "idle: 0.2 is not right"),
        ({"idle": "40"}, "idle: 40 is not right: a share runs from 0 to 1: in percent?"),
        ({"idle": "2.5"}, "idle: 2.5 is not right: 1 over the right one: the other way round?"),
        (
            {"idle": "0.667"},
            "idle: 0.667 is not right: the part over the rest; a share is the part over the whole",
        ),
        (
            {"idle": "1.5"},
            "idle: 1.5 is not right: the rest over the part; a share is the part over the whole",
        ),
        (
            {"idle": "60"},
            "idle: 60 is not right: 100 times the rest of the share: the other part, in percent?",
        ),
        ({"idle": "2.6"}, "idle: 2.6 is not right: asked for is a share, from 0 to 1: how idle it is"),
        ({"idle": "-0.1"}, "idle: -0.1 is not right: asked for is a share, from 0 to 1: how idle it is"),
        ({"step_ms": "12500"}, "step_ms: 12500 is not right: a factor of 1,000: check the unit"),
        ({"step_ms": "-12.5"}, "step_ms: -12.5 is not right: the sign is the other way round"),
        ({"step_ms": "14"}, "step_ms: 14 is not right"),
        (
            {"step_ms": "1e1"},
            "step_ms: 10.0 is not right: rounded to so few digits the right one is that, too: write more",
        ),
        ({"step_ms": "1250"}, "step_ms: 1250 is not right"),  # no share, so no percent
        ({"step_ms": "10.4"}, "step_ms: 10.4 is not right"),  # a sixth beside it is not near
        ({"steps": "8"}, "steps: 8 is not right: one off"),
        ({"kernel": '"gemm"'}, 'kernel: "gemm" is not right: 2 names contain that: write more of it'),
        ({"kernel": '"sofmax"'}, 'kernel: "sofmax" is not right: no name that is asked about contains that'),
        ({"kernel": '"scale"'}, 'kernel: "scale" is not right'),
    ],
)
def test_wrong_answers_are_told_with_a_reason(asked: Sheet, changed: dict[str, str], line: str) -> None:
    verdict = asked.judge(text(**changed))
    assert verdict.status == "failed" and verdict.details[0] == line
    assert verdict.headline == f"{len(changed)} of 5 answers {'is' if len(changed) == 1 else 'are'} wrong"


def test_a_whole_name_is_not_asked_to_be_longer() -> None:
    names = Names("bulk_ring", ("bulk", "bulk_ring", "strided"))
    assert Name("k", "?").near(names, "bulk") == ""
    assert Name("k", "?").near(Names("bulk", names.all), "ulk") == "2 names contain that: write more of it"
    wrong = Name("k", "?").near(Names("strided", names.all), "ulk")
    assert wrong == "2 names contain that: the right one is not among them"


@pytest.mark.parametrize(
    ("given", "end"),
    [([60.0, 90.0], ""), ([0.06, 0.09], ", by about a factor of 1,000: check the unit"), ([2.0, 8.0], "")],
)
def test_a_prediction_in_the_next_unit_is_told(given: list[float], end: str) -> None:
    said = Interval("k", "?", unit="µs").near(100.0, given)
    assert said == f"the measurement lies above your interval{end}"


def test_a_share_is_not_suspected_where_neither_form_is_one() -> None:
    assert "a share" in Number("k", "?").near(1.3, 130.0)
    assert Number("k", "?").near(8275.0, 82.75) == ""


def test_a_name_that_holds_another_is_not_that_one() -> None:
    right = Answers({"k": Names("a", ("a", "bulk", "bulk_ring"))}, [Misreading("second", {"k": "bulk"})])
    one = Sheet("QUESTIONS = ()\nanswers = None", Path("a.py"))
    one.questions = (Name("k", "?"),)
    assert one.mistaken({"k": "bulk_ring"}, right) == one.mistaken({"k": "void bulk_ring(int)"}, right) == []
    assert one.mistaken({"k": "void bulk(int)"}, right) == [("second", ["k"])]


def test_of_misreadings_that_cannot_be_told_from_each_other_both_are_told_and_of_more_none() -> None:
    one = Sheet("QUESTIONS = ()\nanswers = None", Path("a.py"))
    one.questions = (Number("n", "?"),)
    said = [Misreading("one", {"n": 2.0}), Misreading("other", {"n": 2.01}), Misreading("far", {"n": 2.09})]
    assert one.mistaken({"n": 2.0}, Answers({"n": 1.0}, said)) == [("perhaps: one; or else: other", ["n"])]
    assert one.mistaken({"n": 2.09}, Answers({"n": 1.0}, said)) == [("far", ["n"])]
    assert one.mistaken({"n": 2.0}, Answers({"n": 1.0}, [*said, Misreading("third", {"n": 2.0})])) == []


def test_a_part_of_several_names_is_no_misreading() -> None:
    right = Answers(
        {"k": Names("fast", ("fast", "slow_a", "slow_b"))}, [Misreading("second", {"k": "slow_a"})]
    )
    one = Sheet("QUESTIONS = ()\nanswers = None", Path("a.py"))
    one.questions = (Name("k", "?"),)
    assert one.mistaken({"k": "slow"}, right) == []
    assert one.mistaken({"k": "slow_a"}, right) == [("second", ["k"])]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("0.607", "with the mask"),
        ("0.61", ""),  # as near to 0.607 as that is to 0.632, or nearly
        ("0.6", "rounded to so few digits the right one is that, too: write more"),
        ("0.606", ""),  # cut off, not rounded
        ("0.368", "1 minus the right share: the other part?"),
        ("0.37", "perhaps: 1 minus the right share: the other part?"),
        ("0.485", "128 of 264; or else: 1 minus the right share: the other part?"),
        ("63.2", "a share runs from 0 to 1: in percent?"),
        ("1.582", "1 over the right one: the other way round?"),
    ],
)
def test_a_number_is_a_misreadings_only_if_its_digits_say_so(written: str, said: str) -> None:
    right = 136 / 264 if written == "0.485" else 0.6321
    misread = [Misreading("with the mask", {"n": 0.6069}), Misreading("128 of 264", {"n": 0.485})]
    one = Sheet("QUESTIONS = ()\nanswers = None", Path("a.py"))
    one.questions = (Share("n", "?", by=0.01),)
    one.answers = lambda: Answers({"n": right}, misread)
    told = one.judge(f"n = {written}").details[0]
    assert told == f"n: {float(written)} is not right" + (f": {said}" if said else "")


def test_a_part_of_a_name_from_elsewhere_is_told_where_no_other_has_it() -> None:
    said = [Misreading("of the other run", {"k": "sgemm_kernel"})]
    one = Sheet("QUESTIONS = ()\nanswers = None", Path("a.py"))
    one.questions = (Name("k", "?"),)
    right = Answers({"k": Names("nvjet", ("nvjet", "reduce_kernel"))}, said)
    assert one.mistaken({"k": "sgemm"}, right) == [("of the other run", ["k"])]
    assert one.mistaken({"k": "kernel"}, right) == []


def test_a_ratio_turned_round_is_told() -> None:
    one = Sheet("QUESTIONS = ()\nanswers = None", Path("a.py"))
    one.questions = (Number("n", "?"),)
    turned = "1 over the right one: the other way round?"
    assert one.mistaken({"n": 0.0743}, Answers({"n": 13.46})) == [(turned, ["n"])]
    assert one.mistaken({"n": 26.92}, Answers({"n": 13.46})) == [("twice the right one", ["n"])]
    assert one.mistaken({"n": 6.73}, Answers({"n": 13.46})) == [("half of the right one", ["n"])]
    one.questions = (Number("n", "?", unit="ms"),)
    assert one.mistaken({"n": 0.0743}, Answers({"n": 13.46})) == [], "no ratio"


def test_nothing_is_no_wrong_unit() -> None:
    """A tolerance in the unit asked for says nothing of a value that is a thousandth."""
    begins = Number("begins", "?", unit="ms", within=0.0, by=0.1)
    assert begins.near(68.14, 0.0) == ""
    assert begins.near(68.14, 68140.0) == "a factor of 1,000: check the unit"


def test_a_misreading_of_several_answers_is_told_only_if_it_fits_them_all(asked: Sheet) -> None:
    verdict = asked.judge(text(idle="0.9", step_ms="30"))
    assert verdict.details[0] == "idle: 0.9 is not right: that is the whole capture's share"


PREDICTED = '''"""Predict x."""

from labcode.grading.sheet import Answers, Interval, Misreading

QUESTIONS = (
    Interval("ms", "how long", unit="ms", widest=4.0),
    Interval("share", "how much", widest=0.5, share=True),
)


def answers() -> Answers:
    """Fixed ones."""
    return Answers({"ms": 10.0, "share": 0.3}, [Misreading("the peak is never reached", {"ms": 5.0})])
'''


@pytest.mark.parametrize(
    ("ms", "share", "status", "score"),
    [
        ("[10, 10]", "[0.3, 0.3]", "passed", 1.0),
        ("[7, 14]", "[0.3, 0.3]", "passed", 0.75),
        ("[5, 20]", "[0.1, 0.6]", "passed", 0.0),
        ("[11, 14]", "[0.3, 0.3]", "failed", 0.5),
    ],
)
def test_a_prediction_is_worth_the_more_the_narrower(ms: str, share: str, status: str, score: float) -> None:
    verdict = Sheet(PREDICTED, Path("a_x.py")).judge(f"ms = {ms}\nshare = {share}\n")
    assert verdict.status == status and verdict.score == pytest.approx(score)
    if status == "passed":
        assert verdict.headline == f"passed: 2 answers, score {score:.2f} of 1"
        assert "ms: measured 10 ms, you said" in verdict.details[0]


@pytest.mark.parametrize(
    ("ms", "message"),
    [
        ("10", "ms: should be two numbers such as [2, 3.5], not 10"),
        ("[14, 7]", "ms: the first number is the lower one"),
        ("[0, 7]", "ms: both numbers are above 0"),
        ("[5, 21]", "ms: too wide to be worth much: [low, high] in ms, high at most 4 times low"),
    ],
)
def test_what_is_no_prediction(ms: str, message: str) -> None:
    verdict = Sheet(PREDICTED, Path("a_x.py")).judge(f"ms = {ms}\nshare = [0.2, 0.3]\n")
    assert (verdict.status, verdict.headline) == ("failed", message)


@pytest.mark.parametrize(
    ("ms", "share"),
    [
        ('"9 to 11 ms"', '"20 to 40 %"'),
        ('"9 - 11 ms"', '"0.2–0.4"'),
        ('"[9, 11]"', '["20 %", "40 %"]'),
        ('["9 ms", "11000 µs"]', "[0.2, 0.4]"),
    ],
)
def test_a_prediction_may_be_written_otherwise(ms: str, share: str) -> None:
    assert Sheet(PREDICTED, Path("a_x.py")).judge(f"ms = {ms}\nshare = {share}\n").status == "passed"


def test_a_prediction_that_misses_is_told_the_side_and_a_typical_thought() -> None:
    asked = Sheet(PREDICTED, Path("a_x.py"))
    assert asked.judge("ms = [4, 6]\nshare = [0.2, 0.4]\n").details == (
        "ms: [4, 6] is not right: the measurement lies above your interval; "
        "perhaps: the peak is never reached",
    )
    assert asked.judge("ms = [20, 30]\nshare = [0.2, 0.4]\n").details == (
        "ms: [20, 30] is not right: the measurement lies below your interval",
    )
    percent = asked.judge("ms = [9, 11]\nshare = [20, 40]\n")
    assert percent.headline == "share: shares run from 0 to 1: 0.2 and 0.4?"
    ratio = asked.judge("ms = [9, 11]\nshare = [0.9, 1.2]\n")
    assert ratio.headline == "share: shares run from 0 to 1", "which are no percent"


def test_files_that_are_no_sheets(tmp_path: Path) -> None:
    part = Part("a", "t", "a_t.toml", ("1", "2", "3"))
    exercise = Exercise("nsys-ex99-t", "t", "s", "nsys/t", 1, 5, (part,), kind="detective")
    assert part.is_sheet and exercise.source(part) == "nsys/ex99_t/a_t.py"
    file = tmp_path / part.file
    assert grade.grade(exercise, part, file).headline == "a_t.toml is not there"
    file.write_bytes(b"#" * 70_000)
    assert (
        sheet.judge(tmp_path, exercise, part, file).headline
        == "a_t.toml is larger than 64 KiB: a sheet is not"
    )
    file.write_bytes(b"\xff\xfe")
    assert sheet.judge(tmp_path, exercise, part, file).headline == "a_t.toml is not UTF-8 text"


def test_a_capture_that_is_not_there_is_not_run() -> None:
    source = PREDICTED.replace(
        'return Answers({"ms"',
        'from labcode.grading import opened\n    opened.nsys("none", "x", "y")\n    return Answers({"ms"',
    )
    verdict = Sheet(source, Path("a_x.py")).judge("ms = [9, 11]\nshare = [0.2, 0.4]\n")
    assert verdict.status == "not run" and "no capture set of this name" in verdict.headline
