"""Completion in shells: the scripts hold all commands, and what each shell makes of them."""

import functools
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from labcode.cli import program
from labcode.cli.completion import Place, places
from tests.support.command import labcode, one_line


@functools.cache
def script(shell: str) -> str:
    done = labcode("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@functools.cache
def found() -> dict[str, Place]:
    import typer

    return places(typer.main.get_command(program()))


def bash(*words: str) -> list[str]:
    """What bash offers for the last of the words, by its own completion."""
    asked = " ".join(f"'{word}'" for word in words)
    code = f"{script('bash')}\nCOMP_WORDS=({asked}); COMP_CWORD={len(words) - 1}\n"
    code += '_labcode; printf "%s\\n" "${COMPREPLY[@]}"'
    return subprocess.run(
        ["bash", "--norc", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["captures", "me"], ["merge"]),
        (["cap"], ["capture", "captures"]),
        (["stats", "x.sqlite", "--rep"], ["--report"]),
        (["stats", "--format", "j"], ["json"]),
        (["stats", "--format", "=", "j"], ["json"]),
        (["report", "-f", ""], ["html", "md", "json"]),
        (["course", "new", "autumn", "--plan", "d"], ["day"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["--limit", "3", "diag"], ["diagnose"]),
        (["stats", "captures", "me"], []),  # a file of that name, no group
        (["record", "--", "python3", "--hel"], []),  # of the program, which is not ours
        (["profile", "--res"], []),
    ],
)
def test_bash_offers_what_fits(words: Sequence[str], offered: list[str]) -> None:
    assert bash("labcode", *words) == offered


def test_bash_offers_files_where_no_word_fits() -> None:
    assert script("bash").rstrip().endswith("complete -o bashdefault -o default -F _labcode labcode")


def test_every_command_and_option_that_help_shows_is_in_every_script() -> None:
    assert {"", "stats", "captures merge", "bench kernels", "course new"} <= set(found())
    for shell in ("bash", "zsh", "fish"):
        text = script(shell)
        for place in found().values():
            for word in (*place.commands, *place.options):
                shown = f"-l {word.text[2:]} " if shell == "fish" and word.text[:2] == "--" else word.text
                assert shown in text, (shell, word)
    assert "--resume" not in script("bash")  # another name that help does not show, either


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_zsh_offers_the_same(tmp_path: Path) -> None:
    (tmp_path / "_labcode").write_text(script("zsh"))
    asked = """
    compdef() { : }; _files() { print files }
    _describe() { print -l -- ${(P)${@[-1]}} }; compadd() { print -l -- ${(P)2} }
    source "$1"
    words=(labcode captures me); CURRENT=3; _labcode
    words=(labcode stats --format j); CURRENT=4; _labcode
    words=(labcode stats x); CURRENT=3; _labcode
    """
    done = subprocess.run(
        ["zsh", "-f", "-c", asked, "zsh", tmp_path / "_labcode"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert any(line.startswith("merge:Make one set") for line in lines) and done.stderr == ""
    assert lines[-5:] == ["table", "csv", "json", "md", "files"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
def test_fish_offers_the_same(tmp_path: Path) -> None:
    (tmp_path / "labcode.fish").write_text(script("fish"))
    asked = f"source {tmp_path}/labcode.fish; complete -C 'labcode captures me'; "
    asked += "complete -C 'labcode stats --format j'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", asked],
        capture_output=True,
        text=True,
        check=True,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["merge", "json"]


def test_another_shell_is_one_line() -> None:
    assert "completion tcsh: no shell that is completed in" in one_line(labcode("completion", "tcsh"))
