"""The house rules, held over the files of the checkout."""

import gzip
import lzma
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.support import prose

ROOT = Path(__file__).resolve().parents[1]
MAX_BYTES = 44 * 2**20
PICKLES = {".pkl", ".pickle", ".p", ".pt", ".pth", ".ckpt", ".joblib", ".npy", ".npz", ".bin"}
CAPTURE_FILES = re.compile(
    r"equivalent\.toml|(manifest|claims)\.json"
    r"|.*\.(nsys\.xz|json(\.xz)?|csv|parquet|ncu-rep(\.xz)?|trace\.json\.gz)"
)
PRIVATE_PATHS = re.compile(r"(?<![\w./-])/(?:work|root|home|Users|tmp/lab|mnt/data)/[\w.-]+")
# Made-up paths: what scrubbing takes out, and the tests that it does.
PATHS_ALLOWED_IN = re.compile(r"labcode/capture/|tests/")
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".txt",
    ".cu",
    ".cuh",
    ".h",
    ".cpp",
    ".yml",
    ".yaml",
    ".cff",
    ".css",
    ".bib",
    ".json",
    "",
}


@cache
def tracked() -> tuple[Path, ...]:
    """The files git knows, or all files outside of ignored folders when this is no git checkout."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        ignored = {"_build", ".nox", ".venv", "__pycache__", ".git"}
        paths = [path for path in ROOT.rglob("*") if not ignored & set(path.relative_to(ROOT).parts)]
    return tuple(sorted(path for path in paths if path.is_file()))


def pages() -> list[Path]:
    return [path for path in tracked() if path.is_relative_to(ROOT / "book") and path.suffix == ".md"]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_there_is_something_to_check():
    assert ROOT / "conf.py" in tracked()
    assert ROOT / "book" / "index.md" in pages()


def test_tracked_files_stay_small():
    sizes = {name_of(path): path.stat().st_size for path in tracked()}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:5]
    assert sum(sizes.values()) < MAX_BYTES, f"the largest: {largest}"


def test_a_checkout_is_the_same_on_disks_that_ignore_case_and_have_no_links():
    names = sorted(name_of(path) for path in tracked())
    folded = Counter(name.casefold() for name in names)
    assert [name for name in names if folded[name.casefold()] > 1] == []
    assert [name for name in names if not re.fullmatch(r"[\w./+=,@-]+", name, re.ASCII)] == []
    assert [name_of(path) for path in tracked() if path.is_symlink()] == []


def test_there_are_no_pickles():
    assert [name_of(path) for path in tracked() if path.suffix in PICKLES] == []
    assert [
        name_of(path)
        for path in tracked()
        if path.read_bytes()[:2] in (b"\x80\x03", b"\x80\x04", b"\x80\x05")
    ] == []


def test_captures_hold_data_only():
    files = [path for path in tracked() if path.is_relative_to(ROOT / "captures")]
    assert [name_of(path) for path in files if not CAPTURE_FILES.fullmatch(path.name)] == []


def test_no_trace_or_history_names_a_private_path():
    captures = [path for path in tracked() if path.is_relative_to(ROOT / "captures")]
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}
    packed = [path for path in captures if ".json" in path.suffixes and path.suffix in unpack]
    texts = {path: unpack[path.suffix](path.read_bytes()).decode() for path in packed}
    assert [name_of(path) for path, text in texts.items() if PRIVATE_PATHS.search(text)] == []


def test_no_file_names_a_private_path():
    found = []
    for path in tracked():
        if path.suffix in TEXT and not PATHS_ALLOWED_IN.match(name_of(path)):
            for match in PRIVATE_PATHS.finditer(path.read_text(encoding="utf-8")):
                found.append(f"{name_of(path)}: {match.group()}")
    assert found == []


def test_a_checkout_has_the_same_bytes_whatever_git_does_with_line_endings(tmp_path):
    """A manifest hashes what lies beside it, and the sources of its programs."""
    captures = [path for path in tracked() if path.is_relative_to(ROOT / "captures")]
    chosen = [ROOT / ".gitattributes", ROOT / "labcode" / "units.py"]
    for kind in ("*.json", "*.csv", "*.xz", "*.gz", "*.ncu-rep"):
        chosen += sorted((path for path in captures if path.match(kind)), key=lambda p: p.stat().st_size)[:2]
    chosen += [path for path in tracked() if path.match("cuda/*/*.cu")][:2]
    for path in chosen:
        target = tmp_path / "here" / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())

    def git(*words: str, where: str = "here") -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        windows = ("-c", "core.autocrlf=true", "-c", "core.eol=crlf", "-c", "core.safecrlf=false")
        subprocess.run(["git", *who, *windows, *words], cwd=tmp_path / where, check=True, capture_output=True)

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message=all")
    git("clone", "--quiet", "--config=core.autocrlf=true", "here", "there", where=".")
    changed = [
        name_of(path)
        for path in chosen
        if (tmp_path / "there" / path.relative_to(ROOT)).read_bytes() != path.read_bytes()
    ]
    assert changed == []


@pytest.mark.parametrize(
    ("rule", "advice"),
    [
        (
            prose.measurements,
            "numbers with units come from captures (book.value, book.claim) or are marked {spec}",
        ),
        (prose.british_spellings, "American spelling"),
        (prose.foreign_idiom, "write it as the field does"),
        (prose.long_sentences, "split it by meaning"),
        (prose.shell_escapes, "cells hold Python; a failing shell line would never fail the build"),
        (prose.long_commands, "nobody scrolls for the end of a command; put its comment above it"),
        (prose.figures_without_alt, "say what is drawn and what stands out"),
    ],
)
def test_pages_keep_the_rule(rule: Callable[[str], list[prose.Finding]], advice: str):
    found = [
        f"{name_of(path)}:{finding.line}: {finding.text}"
        for path in pages()
        for finding in rule(path.read_text(encoding="utf-8"))
    ]
    assert found == [], advice


def test_units_of_axes_stand_in_parentheses():
    files = [*pages(), *(ROOT / "labcode" / "figures").rglob("*.py")]
    bracketed = re.compile(r"""label(?:=|\()f?"[^"{]*\[[^"]*""")
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    assert [f"{name_of(p)}: {m.group()}" for p, text in texts.items() for m in bracketed.finditer(text)] == []


def test_values_of_a_page_stand_in_its_text():
    found = []
    for path in pages():
        text = path.read_text(encoding="utf-8")
        shown = set(re.findall(r"\{glue:\w*\}`([^`]+)`", text))
        found += [
            (name_of(path), name) for name in re.findall(r'\bvalue\("(\w+)"', text) if name not in shown
        ]
    assert found == []


def test_pages_begin_with_a_title():
    def title(page: str) -> bool:
        body = re.sub(r"\A---\n.*?\n---\n", "", page, flags=re.DOTALL).lstrip()
        body = re.sub(r"\A(?:\([\w-]+\)=\s*)+", "", body)
        return re.match(r"# \S", body) is not None

    assert [name_of(path) for path in pages() if not title(path.read_text(encoding="utf-8"))] == []


def test_every_page_is_in_the_table_of_contents():
    reached, queue = set(), [ROOT / "book" / "index.md"]
    while queue:
        page = queue.pop()
        if page in reached:
            continue
        reached.add(page)
        if not page.is_file():
            continue
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            entries = [
                line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")
            ]
            names = [re.sub(r".*<(.+)>$", r"\1", entry).removesuffix(".md") for entry in entries]
            queue += [((page.parent / name).resolve()).with_suffix(".md") for name in names]
    assert sorted(map(name_of, set(pages()) - reached)) == [], "pages that no table of contents names"
    assert sorted(map(name_of, reached - set(pages()))) == [], "entries without a page (git add it)"


def test_pages_with_cells_say_how_they_run():
    assert len(pages()) > 40
    for path in pages():
        text = path.read_text(encoding="utf-8")
        if "{code-cell}" in text:
            assert text.startswith("---\nfile_format: mystnb\n"), name_of(path)
            assert re.search(r"^kernelspec:\n  name: python3$", text, re.MULTILINE), name_of(path)


def test_every_package_that_readers_call_is_in_the_reference():
    """Packages below the first level are details of theirs; what commands alone call is read in the code."""
    behind_commands = {"bench", "capture", "cli", "doctor", "experiments", "grading", "kit", "workloads"}
    pages_of_api = (ROOT / "book" / "reference" / "api").glob("*.md")
    named = set(re.findall(r"\{api-package\} (labcode[\w.]*)", "".join(map(Path.read_text, pages_of_api))))
    packages = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in tracked()
        if path.name == "__init__.py"
        and path.parent.parent in (ROOT, ROOT / "labcode")
        and path.parent.name not in ("benchmarks", "tests")
    }
    assert packages - named == {f"labcode.{name}" for name in behind_commands}


def test_the_two_wings_stay_apart():
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_who_reaches_over_or_up_is_caught(tmp_path):
    """The contracts themselves work, in both directions and between the floors."""
    for path in (ROOT / "labcode").rglob("*.py"):
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    cheats = {
        "analysis": ("torch", "labcode.experiments.shared.cuda"),
        "hardware": ("labcode.capture.catalogue",),
        "capture": ("labcode.figures.style",),
        "reports": ("labcode.analysis.lm.parts",),
        "analysis.timeline": ("labcode.analysis.rules.tables",),
    }
    for package, wanted in cheats.items():
        lines = "".join(f"import {name}\n" for name in wanted)
        (tmp_path / "labcode" / package.replace(".", "/") / "cheat.py").write_text(lines, encoding="utf-8")
    folder = "labcode.experiments.compute.attention"
    inside = {"picture": "torch", "program": f"{folder}.picture"}
    for module, name in inside.items():
        path = tmp_path / folder.replace(".", "/") / f"{module}.py"
        path.write_text(f"import {name}\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))",
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    for package, wanted in cheats.items():
        for name in wanted:
            assert f"labcode.{package}.cheat -> {name}" in run.stdout
    assert f"{folder}.picture -> torch" in run.stdout
    broken = run.stdout.partition("Broken contracts")[2]
    assert "What an experiment draws is for pages alone: no program imports it" in broken


def test_every_exercise_is_on_the_page_of_its_chapter():
    from labcode.grading.catalogue import EXERCISES

    for exercise in EXERCISES:
        page = ROOT / "book" / f"{exercise.chapter}.md"
        assert page.is_file(), f"{exercise.id}: there is no page {exercise.chapter}"
        assert f"{{exercise-card}} {exercise.id}\n" in page.read_text(encoding="utf-8"), exercise.id


def test_pages_say_where_their_numbers_come_from():
    quoting = 0
    for path in pages():
        text = path.read_text(encoding="utf-8")
        used = set(re.findall(r"book\.(?:capture|launches|record)\(\s*[\"'](\w+)[\"']", text))
        stamped = set(" ".join(re.findall(r"\{captures-used\} ([\w ]+)", text)).split())
        assert used <= stamped, f"{name_of(path)}: add {sorted(used - stamped)} to its {{captures-used}}"
        quoting += bool(used)
    assert quoting > 20
