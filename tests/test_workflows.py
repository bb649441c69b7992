"""What the forge runs: who may do what, by which digest, and the scripts of `.ci` that its steps call."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from labcode.cli import program
from tests.support import programs

ROOT = Path(__file__).parents[1]
OURS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FILES = [*OURS, ROOT / "cluster" / "pull-request.yml"]
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
WRITES = {  # all that any job may write
    ("ci.yml", "publish"): {"pages": "write", "id-token": "write"},
    ("release.yml", "publish"): {"contents": "write"},
    ("release.yml", "site"): {"actions": "write"},
    ("changes.yml", "comment"): {"pull-requests": "write"},
    ("pull-request.yml", "compare"): {"contents": "read", "pull-requests": "write"},
}


def workflow(name: str) -> dict[str, Any]:
    (path,) = (path for path in FILES if path.name == name)
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_jobs_may_do_what_they_need_and_no_more(path):
    content = workflow(path.name)
    assert content["permissions"] == {}
    for name, job in content["jobs"].items():
        assert job["permissions"] == WRITES.get((path.name, name), {"contents": "read"}), name
        assert job["timeout-minutes"] <= 120, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_are_pinned_by_digest_and_leave_no_credentials(path):
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"uses: (.+)", text)
    assert [use for use in used if not PINNED.fullmatch(use)] == []
    assert len(used) == text.count("uses:")
    for job in workflow(path.name)["jobs"].values():
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            if "checkout@" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False
            assert "${{" not in step.get("run", ""), "values reach a script as variables, not as text"


def test_an_action_has_one_digest():
    digests = {}
    for path in FILES:
        for action, rest in re.findall(r"uses: ([^@\s]+)@(.+)", path.read_text(encoding="utf-8")):
            digests.setdefault(action, set()).add(rest)
    assert {action: rests for action, rests in digests.items() if len(rests) > 1} == {}


def test_no_workflow_runs_on_what_strangers_can_start_with_our_rights():
    for path in FILES:
        asked = workflow(path.name)[True]  # YAML 1.1 reads `on` as true
        assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(asked), path.name


def test_the_book_is_published_after_everything_passed_and_never_from_a_pull_request():
    jobs = workflow("ci.yml")["jobs"]
    publish = jobs.pop("publish")
    assert set(publish["needs"]) == set(jobs)
    assert "github.ref == 'refs/heads/main'" in publish["if"]
    assert "github.event_name != 'pull_request'" in publish["if"]
    assert [step["uses"].partition("@")[0] for step in publish["steps"]] == ["actions/deploy-pages"]
    assert any("nox -s book -- --strict" in step.get("run", "") for step in jobs["book"]["steps"])


def test_what_is_released_was_built_by_a_job_that_can_write_nothing():
    jobs = workflow("release.yml")["jobs"]
    assert jobs["publish"]["needs"] == "build" and jobs["site"]["needs"] == "publish"
    used = [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"] if "uses" in step]
    assert used == ["actions/download-artifact"]


def test_sessions_and_scripts_that_steps_call_are_there():
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    jobs = [job for path in OURS for job in workflow(path.name)["jobs"].values()]
    steps = [step.get("run", "") for job in jobs for step in job["steps"]]
    sessions = set(re.findall(r"nox -s (\w+)", "\n".join(steps)))
    scripts = set(re.findall(r"\.ci/\w+", "\n".join(steps)))
    assert sessions == {
        "book",
        "elsewhere",
        "linkcheck",
        "newest",
        "nightly",
        "tests",
        "workflows",
    }
    assert [name for name in sessions if f"def {name}(" not in noxfile] == []
    assert scripts == {".ci/changes", ".ci/notes", ".ci/release", ".ci/run", ".ci/site"}
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in scripts]
    for script in (*steps, *(text for text in texts if text.startswith("#!/usr/bin/env bash\n"))):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert [name for name in scripts if not os.access(ROOT / name, os.X_OK)] == []


def run(script: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([script, *map(str, words)], capture_output=True, text=True, check=False)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "index.html").write_text("main's")
    return tmp_path / "html"


def test_the_site_has_the_released_book_beside_mains(book, tmp_path):
    released = tmp_path / "profiling-lab-1.0.0"
    released.mkdir()
    (released / "index.html").write_text("the release's")
    (released / "sitemap.xml").write_text("of the release")
    (book / "sitemap.xml").write_text("of main")
    with tarfile.open(tmp_path / "book.tar.gz", "w:gz") as archive:
        archive.add(released, released.name)
    done = run(ROOT / ".ci" / "site", book, tmp_path / "site", tmp_path / "book.tar.gz")
    assert (done.returncode, done.stderr) == (0, "")
    site = tmp_path / "site"
    texts = {path.relative_to(site).as_posix(): path.read_text() for path in site.rglob("*.*ml")}
    assert 'url=stable/"' in texts.pop("index.html")
    assert texts == {
        "dev/index.html": "main's",
        "dev/sitemap.xml": "of main",
        "stable/index.html": "the release's",
        "stable/sitemap.xml": "of the release",
        "sitemap.xml": "of the release",
    }
    assert (tmp_path / "site" / ".nojekyll").is_file()


def test_before_the_first_release_the_front_door_leads_to_mains_book(book, tmp_path):
    assert run(ROOT / ".ci" / "site", book, tmp_path / "site").returncode == 0
    assert 'url=dev/"' in (tmp_path / "site" / "index.html").read_text()
    assert not (tmp_path / "site" / "stable").exists()


def test_a_site_without_a_book_is_refused(book, tmp_path):
    (tmp_path / "empty").mkdir()
    done = run(ROOT / ".ci" / "site", tmp_path / "empty", tmp_path / "site")
    assert done.returncode == 2
    assert done.stderr == f".ci/site: {tmp_path}/empty: no index.html here; build the book first\n"
    done = run(ROOT / ".ci" / "site", book, tmp_path / "site", tmp_path / "no.tar.gz")
    assert done.stderr == f".ci/site: {tmp_path}/no.tar.gz: no such file\n"
    assert not (tmp_path / "site").exists()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As much of a checkout as the notes of a release are made from."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "notes", tmp_path / ".ci")
    (tmp_path / "labcode").mkdir()
    (tmp_path / "labcode" / "__init__.py").write_text('__version__ = "1.0.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.0.0\n")
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n- later\n\n"
        "## [1.0.0] - 2027-01-02\n\n- this\n\n## [0.9.0] - 2026-12-01\n\n- before\n"
    )
    return tmp_path


def test_notes_are_the_section_of_the_version(checkout):
    done = run(checkout / ".ci" / "notes", "v1.0.0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "- this\n", "")


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        (
            "labcode/__init__.py",
            "1.0.0",
            "1.0.1",
            "the tag is v1.0.0, and the version in labcode/__init__.py is 1.0.1",
        ),
        (
            "CITATION.cff",
            "version: 1.0.0",
            "version: 0.9.0",
            "the version in CITATION.cff is 0.9.0, and that in labcode/__init__.py is 1.0.0",
        ),
        (
            "CHANGELOG.md",
            "## [1.0.0] - 2027-01-02",
            "## [1.0.0]",
            "CHANGELOG.md has no section '## [1.0.0] - DATE'",
        ),
    ],
)
def test_a_tag_that_does_not_fit_is_refused(checkout, name, old, new, says):
    path = checkout / name
    path.write_text(path.read_text().replace(old, new))
    done = run(checkout / ".ci" / "notes", "v1.0.0")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f".ci/notes: {says}\n")


def test_an_archive_made_twice_is_the_same(book, tmp_path):
    """The command of `.ci/release` that packs the book, over files of other dates and orders."""
    script = (ROOT / ".ci" / "release").read_text(encoding="utf-8")
    command = re.search(r"^tar --directory _build/html .*?\.tar\.gz\"$", script, re.DOTALL | re.MULTILINE)
    assert command
    digests = set()
    for number, names in enumerate((("a", "b"), ("b", "a"))):
        folder = tmp_path / str(number)
        (folder / "_build" / "html").mkdir(parents=True)
        for name in names:
            path = folder / "_build" / "html" / name
            path.write_text(name)
            os.utime(path, (number + 1, number + 1))
        environment = {
            "PATH": os.environ["PATH"],
            "SOURCE_DATE_EPOCH": "1700000000",
            "out": ".",
            "name": "lab",
        }
        subprocess.run(["bash", "-ec", command[0]], cwd=folder, env=environment, check=True)
        digests.add(hashlib.sha256((folder / "lab-book.tar.gz").read_bytes()).hexdigest())
    assert len(digests) == 1
    with tarfile.open(folder / "lab-book.tar.gz") as archive:
        assert sorted(archive.getnames()) == ["lab", "lab/a", "lab/b"]


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
)
def test_forms_ask_in_the_words_of_the_forge(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.name == "config.yml":
        assert set(form) <= {"blank_issues_enabled", "contact_links"}
        return
    assert set(form) == {"name", "description", "labels", "body"}
    ids = [part["id"] for part in form["body"]]
    assert len(set(ids)) == len(ids) and any(part.get("validations") for part in form["body"])
    commands = set(typer.main.get_command(program()).commands)
    for part in form["body"]:
        assert part["type"] in {"input", "textarea"} and part["attributes"]["label"]
        assert set(part) <= {"type", "id", "attributes", "validations"}
        assert set(part["attributes"]) <= {"label", "description", "placeholder", "render"}
    assert set(re.findall(r"`labcode (\w+)", path.read_text(encoding="utf-8"))) <= commands


@pytest.mark.parametrize(
    ("fails", "told"),
    [
        ("", "begins browser\nbegins content\n"),
        ("lint", "begins lint"),
        ("book", "begins book\n"),
        ("content", "content\n"),
    ],
)
def test_a_change_is_checked_in_two_rows_and_the_first_to_fail_ends_the_other(
    tmp_path: Path, fails: str, told: str
) -> None:
    """Where one fails, the other one would go on for ten minutes."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    programs.program(
        tmp_path / ".nox/runner/bin/nox",
        f"""
        for word in lint book browser content; do
            case " $* " in *" $word "*)
                echo "begins $word"
                [ "$word" = "{fails}" ] && exit 3
                case "$word {fails}" in "lint book" | "lint content" | "book lint") sleep 600;; esac
            esac
        done
        """,
    )
    programs.program(tmp_path / "bin/chromium", "exit 0")
    env = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHON": sys.executable}
    done = subprocess.run([tmp_path / ".ci/run"], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == (3 if fails else 0), done.stderr
    assert told in done.stdout
