"""Running the rules and writing their verdicts: plug-ins, formats, bad input, odd captures."""

import io
import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from labcode.analysis.rules import CannotJudgeError, Finding, Rule, Tables, rule
from labcode.analysis.rules.registry import all_rules, own_rules
from labcode.errors import InputError, LabError
from labcode.experiments.lab.report_speed.big_export import make_big_export
from labcode.reports.nsys.report import open_report
from labcode.verbs.diagnose import verdicts as module
from labcode.verbs.diagnose.verdicts import NOT_ADDITIVE, diagnose, list_rules, run, select, tables_of
from tests.analysis.ledger.test_ledger import check
from tests.support import exports as x
from tests.support.random_export import make_random_export

MS = 1_000_000
HOSTILE = 'a, "b" | `c`\n\x1b[31m<script>alert(1)</script> ünï \\'


@rule("many-kernels", title="Many kernels", book="nsys/patterns", advice="Fewer.")
def many_kernels(tables: Tables) -> Finding:
    """An example of a rule: more than three kernels are many."""
    tables.need_kernels()
    count = len(tables.kernels)
    return Finding(
        count > 3, f"{count} kernels", count, "kernels", len(tables.ops), "operations", 0.5, tables.kernels
    )


@rule("broken", title="Broken")
def broken(tables: Tables) -> Finding:
    """Raises what no rule should."""
    raise ZeroDivisionError(f"no {tables.width - tables.width}\nat all")


@rule("picky", title="Picky")
def picky(tables: Tables) -> Finding:
    """Cannot judge."""
    raise CannotJudgeError("there is no power log (record with --gpu-metrics-devices=all)")


def small(tmp_path: Path, name: str = "k(int)") -> Path:
    kernels = [x.kernel(i * MS, i * MS + MS // 4, name, correlation=i) for i in range(1, 9)]
    api = [x.call(i * MS - 9000, i * MS - 5000, correlation=i) for i in range(1, 9)]
    ranges = [x.push_pop(i * MS, (i + 1) * MS, name) for i in range(1, 9)]
    return x.make_export(tmp_path / "a.sqlite", kernels=kernels, api=api, nvtx=ranges)


def written(path: Path, fmt: str, *only: str) -> str:
    stream = io.StringIO()
    assert run(path, fmt=fmt, only=list(only), output=stream) == 0
    return stream.getvalue()


# ---- rules and plug-ins


def test_a_rule_of_ones_own(tmp_path: Path) -> None:
    with open_report(small(tmp_path)) as report:
        (verdict,) = diagnose(report, [many_kernels])
    assert (verdict.rule, verdict.status, verdict.severity, verdict.share) == (
        "many-kernels",
        "found",
        "high",
        1.0,
    )
    assert (verdict.book, verdict.advice, len(verdict.evidence)) == ("nsys/patterns", "Fewer.", 6)


def test_a_rule_that_raises_does_not_stop_the_others(tmp_path: Path) -> None:
    with open_report(small(tmp_path)) as report:
        verdicts = diagnose(report, [broken, picky, many_kernels])
    assert [(v.rule, v.status) for v in verdicts] == [
        ("many-kernels", "found"),
        ("broken", "failed"),
        ("picky", "could not judge"),
    ]
    assert verdicts[1].message.startswith(
        "rule broken failed: ZeroDivisionError: no 0 at all (test_diagnose.py, line "
    )
    assert verdicts[2].message.startswith("could not judge: there is no power log")


def test_a_rule_that_returns_nothing_or_leaves_has_failed(tmp_path: Path) -> None:
    empty = Rule("empty", "Empty", "", "", lambda tables: None)  # type: ignore[arg-type, return-value]
    leaver = Rule("leaver", "Leaver", "", "", lambda tables: sys.exit(3))
    with open_report(small(tmp_path)) as report:
        assert [v.status for v in diagnose(report, [empty, leaver])] == ["failed", "failed"]


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = ModuleType("a_plugin")
    plugin.many_kernels, plugin.number = many_kernels, 3  # type: ignore[attr-defined]
    again = ModuleType("another_plugin")
    again.taken = Rule("idle-gaps", "Mine", "", "", many_kernels.judge)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_plugin", plugin)
    monkeypatch.setitem(sys.modules, "another_plugin", again)
    values = ["a_plugin", "a_plugin:number", "another_plugin:taken", "no_such_module"]
    points = [EntryPoint(f"p{i}", value, "labcode.rules") for i, value in enumerate(values)]
    rules, wrong = all_rules(points)
    assert rules[-1] is many_kernels and len(rules) == len(own_rules()) + 1
    assert [(b.name, b.reason) for b in wrong] == [
        ("p1", "a_plugin:number is neither a rule nor a module with rules"),
        ("p2", "there is a rule named idle-gaps already"),
        ("p3", "ModuleNotFoundError: No module named 'no_such_module'"),
    ]


def test_a_plugin_that_cannot_be_loaded_is_a_failed_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [EntryPoint("mine", "no_such_module", "labcode.rules")]
    monkeypatch.setattr(module, "all_rules", lambda: all_rules(points))
    with open_report(small(tmp_path)) as report:
        failed = [v for v in diagnose(report) if v.status == "failed"]
    assert [v.message for v in failed] == [
        "rule mine failed: ModuleNotFoundError: No module named 'no_such_module'"
    ]


def test_only_some_rules(tmp_path: Path) -> None:
    text = written(small(tmp_path), "json", "tiny-kernels", "idle-gaps", "tiny-kernels")
    assert sorted(v["rule"] for v in json.loads(text)["verdicts"]) == ["idle-gaps", "tiny-kernels"]


def test_a_rule_that_there_is_not() -> None:
    with pytest.raises(
        LabError, match=r"^'idle-gap' is not a rule; did you mean idle-gaps\? There are: data-loading, "
    ):
        select(["idle-gap"])
    with pytest.raises(LabError, match=r"^'zzz' is not a rule; there are: "):
        select(["zzz"])


def test_a_format_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"^'csv' is not a format; choose one of table, json, md$"):
        run(small(tmp_path), fmt="csv", only=[], output=io.StringIO())


def test_a_capture_at_fault_is_no_failed_rule(tmp_path: Path) -> None:
    path = x.make_export(
        tmp_path / "a.sqlite",
        kernels=[x.kernel(0, MS)],
        drop_columns={"CUPTI_ACTIVITY_KIND_KERNEL": ["end"]},
    )
    with pytest.raises(InputError, match=r"a\.sqlite: .*CUPTI_ACTIVITY_KIND_KERNEL"):
        run(path, fmt="table", only=[], output=io.StringIO())


def test_the_list_of_rules() -> None:
    stream = io.StringIO()
    list_rules(stream)
    lines = stream.getvalue().splitlines()
    assert lines[0].split() == ["rule", "title", "in", "the", "book"] and lines[2 + len(own_rules())] == ""
    assert "idle-gaps" in stream.getvalue()


def test_a_file_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.sqlite"):
        run(tmp_path / "nowhere.sqlite", fmt="table", only=[], output=io.StringIO())


# ---- formats


def test_the_table(tmp_path: Path) -> None:
    text = written(small(tmp_path), "table")
    assert "6 ms judged (6 iterations, found by ranges named" in text
    assert "idle: the program's own code on the CPU" in text  # the ledger
    assert "[high] The GPU waits for the program's own code (host-code)" in text
    assert "of an iteration (predicted; " in text and "in the book: nsys/timeline-basics" in text
    assert NOT_ADDITIVE in text
    assert "\nfacts:\n  idle-gaps: GPU 0 is idle for" in text
    assert "\nnot judged:\n" in text


def test_a_table_has_figures_for_what_was_not_found_on_request(tmp_path: Path) -> None:
    path = small(tmp_path)
    short, stream = written(path, "table"), io.StringIO()
    assert "  evidence, " not in short and "\nnot found: " in short and "labcode diagnose --all" in short
    run(path, fmt="table", only=[], everything=True, output=stream)
    whole = stream.getvalue()
    assert "  evidence, " in whole and "\nnot found:\n  " in whole and "labcode diagnose --all" not in whole
    assert "evidence, " in written(path, "table", "host-code")


def test_a_table_without_findings_makes_no_remark_on_gains(tmp_path: Path) -> None:
    path = x.make_export(tmp_path / "a.sqlite", kernels=[x.kernel(0, MS)])
    text = written(path, "table", "idle-gaps")
    assert "Nothing found." in text and NOT_ADDITIVE not in text


def test_markdown(tmp_path: Path) -> None:
    text = written(small(tmp_path), "md")
    assert "| rule | verdict | gain | measured |" in text
    assert "## The GPU is idle while the CPU does something else" in text and NOT_ADDITIVE in text


def test_json_is_strict_and_whole(tmp_path: Path) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    whole = json.loads(written(small(tmp_path), "json"), parse_constant=refuse)
    assert whole["note"] == NOT_ADDITIVE and len(whole["verdicts"]) == len(own_rules()) + 1
    (ledger,) = whole["judged"]["ledgers"]
    assert sum(one["each_ns"] for one in ledger["owners"]) == pytest.approx(ledger["each_ns"])
    idle = next(v for v in whole["verdicts"] if v["rule"] == "idle-gaps")
    assert idle["status"] == "found" and idle["evidence_rows"] == len(idle["evidence"]) == 6
    assert idle["share"] == pytest.approx(idle["numerator"] / idle["denominator"])
    assert {"device", "start_ns", "duration_ns", "range", "call"} <= set(idle["evidence"][0])


@pytest.mark.parametrize("fmt", ["table", "md", "json"])
def test_hostile_names_stay_text(tmp_path: Path, fmt: str) -> None:
    text = written(small(tmp_path, HOSTILE), fmt)
    assert "\x1b" not in text
    if fmt == "md":
        assert "<script>" not in text
        assert all(
            line.count("|") - line.count("\\|") == 5
            for line in text.splitlines()
            if line.startswith("| idle")
        )
    if fmt == "table":
        assert not [line for line in text.splitlines() if line.startswith("<")]


# ---- odd captures


@pytest.mark.parametrize("schema", [(3, 7, 2), (3, 11, 1), (3, 20, 3), (3, 25, 0)])
def test_an_empty_capture_cannot_be_judged(tmp_path: Path, schema: tuple[int, int, int]) -> None:
    with open_report(x.make_export(tmp_path / "a.sqlite", schema=schema)) as report:
        verdicts = diagnose(report)
    assert {v.status for v in verdicts} == {"could not judge"} and len(verdicts) == len(own_rules()) + 1
    for fmt in ("table", "md", "json"):
        assert "could not judge" in written(tmp_path / "a.sqlite", fmt)
    reasons = {verdict.message for verdict in verdicts}  # each is said once, after the rules it holds for
    assert written(tmp_path / "a.sqlite", "table").count("could not judge") == len(reasons) < len(verdicts)


@pytest.mark.parametrize("lacking", ["kernels", "api", "nvtx"])
def test_a_capture_that_lacks_a_table(tmp_path: Path, lacking: str) -> None:
    tables = {
        "kernels": [x.kernel(i * MS, i * MS + MS // 4, correlation=i) for i in range(1, 9)],
        "api": [x.call(i * MS - 9000, i * MS - 5000, correlation=i) for i in range(1, 9)],
        "nvtx": [x.push_pop(0, 9 * MS, None)],
    }
    with open_report(x.make_export(tmp_path / "a.sqlite", **{**tables, lacking: []})) as report:
        statuses = {v.rule: v.status for v in diagnose(report)}
    assert "failed" not in statuses.values()
    assert statuses["idle-gaps"] == ("could not judge" if lacking == "kernels" else "found")
    assert (statuses["launch-bound"] == "could not judge") == (lacking != "nvtx")


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(n, marks=pytest.mark.slow) for n in range(8, 25))]
)
def test_no_capture_breaks_a_rule(tmp_path: Path, seed: int) -> None:
    with open_report(make_random_export(tmp_path / "a.sqlite", seed, shuffled=bool(seed % 2))) as report:
        verdicts = diagnose(report)
        for one in tables_of(report).ledgers:
            if one.window[1] > one.window[0]:
                check(one)
    told = sorted(verdict.rule for verdict in verdicts if verdict.rule != "unnamed-work")  # only where found
    assert told == sorted(["good", *(rule.id for rule in all_rules()[0])])
    for verdict in verdicts:
        assert verdict.status != "failed", verdict.message
        assert verdict.gain is None or 0 <= verdict.gain <= 1
        if verdict.denominator and "ns" in verdict.denominator_name:
            assert 0 <= (verdict.share or 0) <= 1, verdict.rule


def test_times_that_end_before_they_begin_and_null_ends(tmp_path: Path) -> None:
    far = (1 << 62) - 10
    path = x.make_export(
        tmp_path / "a.sqlite",
        kernels=[
            x.kernel(far - 500, far - 900),
            x.kernel(far - 800, far - 100),
            x.kernel(far - 50, far - 50),
        ],
        api=[x.call(far - 900, far - 950)],
        nvtx=[x.push_pop(far - 900, None, "open"), x.mark(far - 400)],
    )
    with open_report(path) as report:
        assert not [v.message for v in diagnose(report) if v.status == "failed"]


def test_many_events(tmp_path: Path) -> None:
    with open_report(make_big_export(tmp_path / "big.sqlite", 60_000)) as report:
        verdicts = diagnose(report)
    assert not [v.message for v in verdicts if v.status == "failed"]
    assert sum(len(v.evidence) for v in verdicts) > 1000
