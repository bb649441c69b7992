"""What a change does to claims and captures, as a comment says it: `.ci/changes` on small histories."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "changes"


def entry(sha: str, day: str = "2026-01-01", **more: Any) -> dict[str, Any]:
    files = {"record.json": {"sha256": sha, "bytes": 1}}
    return {"captured": day, "sources": {"a.py": "1"}, "runs": {"record": {"files": files}}, **more}


def claim(
    shown: str, holds: bool = True, bound: str = "at most 12", text: str = "it is fast"
) -> dict[str, Any]:
    return {"key": "k", "text": text, "value": 1.0, "shown": shown, "bound": bound, "holds": holds}


class History:
    """A repository in which sets are committed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet")
        (folder / "README.md").write_text("x")
        self.commit()

    def git(self, *words: str) -> None:
        said = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *said, *words], cwd=self.folder, check=True, capture_output=True)

    def commit(self, **sets: tuple[dict[str, Any], dict[str, Any]]) -> None:
        for name, (experiments, claims) in sets.items():
            place = self.folder / "captures" / name
            place.mkdir(parents=True, exist_ok=True)
            (place / "manifest.json").write_text(json.dumps({"experiments": experiments}))
            (place / "claims.json").write_text(json.dumps({"claims": claims}))
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "x")

    def changes(self, base: str = "HEAD~1", head: str = "HEAD") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, base, head], cwd=self.folder, text=True, capture_output=True, check=False
        )

    def said(self) -> list[str]:
        done = self.changes()
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def test_of_a_change_to_neither_it_says_so(history: History) -> None:
    history.commit(h200=({"one": entry("1")}, {"p#k": claim("10")}))
    history.commit()
    assert history.said() == ["## What this changes", "", "Neither a claim nor a capture changes."]


def test_captures_are_added_taken_out_captured_anew_and_filed_anew(history: History) -> None:
    before = {
        "gone": entry("1"),
        "new_day": entry("1"),
        "same_day": entry("1"),
        "named": entry("1"),
        "as": entry("1"),
    }
    after = {
        "added": entry("1", "2026-02-02"),
        "new_day": entry("2", "2026-02-02"),
        "same_day": entry("2"),
        "named": entry("1", sources={"b.py": "1"}),
        "as": entry("1"),
    }
    history.commit(h200=(before, {}))
    history.commit(h200=(after, {}))
    assert [line for line in history.said() if line.startswith(("#", "*", "-"))] == [
        "## What this changes",
        "### Set h200",
        "**Captures: 5**",
        "- added: added, captured 2026-02-02",
        "- gone: taken out",
        "- named: its sources are named anew, its files stay",
        r"- new\_day: captured anew (2026-02-02): record",
        r"- same\_day: other files, of the same day (2026-01-01): record",
    ]


def test_claims_that_turn_over_come_first(history: History) -> None:
    before = {
        "p#a": claim("10"),
        "p#b": claim("10"),
        "p#c": claim("10"),
        "p#d": claim("10"),
        "p#e": claim("9"),
    }
    after = {
        "p#a": claim("11"),
        "p#b": claim("13", holds=False),
        "p#c": claim("10", bound="at most 20"),
        "q#n": claim("1", bound=""),
        "p#e": claim("9", text="it is quick"),
    }
    history.commit(h200=({}, before))
    history.commit(h200=({}, after))
    assert [line for line in history.said() if line.startswith("-")] == [
        "- p: **no longer holds**: it is fast: 13 (at most 12), before 10",
        "- p: bound was at most 12: it is fast: 10 (at most 20)",
        "- p: gone: it is fast: 10 (at most 12)",
        "- p: worded anew: it is quick: 9 (at most 12)",
        "- q: new: it is fast: 1",
        "- p: 10 → it is fast: 11 (at most 12)",
    ]


def test_a_new_set_and_two_of_them(history: History) -> None:
    history.commit(h200=({"one": entry("1")}, {}))
    history.commit(mine=({"one": entry("1")}, {}))
    said = history.said()
    assert "### Set mine" in said and "### Set h200" not in said
    assert said[-1] == "`labcode captures compare h200 mine` shows the sets side by side."


def test_texts_neither_format_nor_call_anybody_and_lists_end(history: History) -> None:
    odd = "[x](http://y) <img> @someone\n# `a`" + "z" * 300
    history.commit(h200=({}, {}))
    history.commit(h200=({}, {"a#k": claim("1", text=odd), **{f"p#{n}": claim("1") for n in range(60)}}))
    said = history.said()
    (line,) = [line for line in said if "someone" in line]
    assert r"\[x\](http://y) \<img\>" in line and "@someone" not in line and r"\# \`a\`" in line
    assert not re.search(r"(?<!\\)[<`\[]", line) and len(line) < 300
    assert said[-1] == "- … and 21 more"


def test_what_cannot_be_compared_is_one_line(history: History) -> None:
    history.commit(h200=({}, {}))
    (history.folder / "captures/h200/claims.json").write_text("{")
    history.commit()
    done = history.changes()
    assert (done.returncode, done.stderr) == (2, ".ci/changes: HEAD:captures/h200/claims.json: damaged\n")
    done = history.changes("nowhere")
    assert done.returncode == 2 and done.stderr.startswith(".ci/changes: git ls-tree: ")
    done = subprocess.run([SCRIPT], text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: .ci/changes BASE HEAD\n")
