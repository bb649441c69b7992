"""Sessions of the Profiling Lab: each installs what it needs and calls ``python -m labcode …`` or a check."""

import hashlib
import os
import shutil
from pathlib import Path

import nox

nox.options.sessions = ["book"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_external_run = True

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every page and program compiles the lab anew

ROOT = Path(__file__).resolve().parent
TORCH = "torch==2.13.0"
# Tests of what is read and solved: kernels, exercises, pages, captures. All others are of the lab's own code.
CONTENT = (
    "tests/cuda",
    "tests/exercises/test_folders.py",
    "tests/book/test_lacking.py",
    "tests/book/test_pictures.py",
    "tests/capture/test_shipped.py",
)


def install(session: nox.Session, *requirements: str) -> None:
    """Install pinned requirements, unless this environment has them already."""
    wanted = "\n".join(requirements) + "".join(
        (ROOT / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "constraints.txt")
    )
    digest = hashlib.sha256(f"{ROOT}\n{wanted}".encode()).hexdigest()
    stamp = Path(session.virtualenv.location) / "installed.txt"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        return
    session.install("-c", "constraints.txt", *requirements)
    stamp.write_text(digest, encoding="utf-8")


def labcode(session: nox.Session, *arguments: str) -> None:
    """Call ``python -m labcode``."""
    session.run("python", "-m", "labcode", *arguments)


@nox.session
def book(session: nox.Session) -> None:
    """Build the book into _build/html. Options go after --: --captures my-h100, --strict, --update-claims."""
    install(session, "-e", ".[book]")
    labcode(session, "book", *session.posargs)


@nox.session
def slides(session: nox.Session) -> None:
    """Make slides of a page of the built book: nox -s slides -- nsys/timeline-basics -o slides.html."""
    install(session, "-e", ".[book]")
    labcode(session, "slides", *session.posargs)


@nox.session
def live(session: nox.Session) -> None:
    """Serve the book and build it again whenever a file is saved."""
    install(session, "-e", ".[book]")
    labcode(session, "book", "--what", "live", *session.posargs)


def pytest(session: nox.Session, *arguments: str) -> None:
    """Call ``pytest``, spread over the processor's cores."""
    # One worker more than cores, for tests wait for programs; threads beneath them would only wait for one
    # another. Each worker goes through its part in order, so that what tests share is made once.
    workers = str(min(8, 1 + (os.cpu_count() or 1)))
    session.run("pytest", "-n", workers, "--dist", "worksteal", *arguments, env={"OMP_NUM_THREADS": "1"})


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests of the lab's code; those marked gpu run where there is a GPU.

    What comes after -- goes to pytest, and all tests are to be had there: nox -s tests -- tests/cuda -k sum.
    """
    install(session, "-e", ".[book,dev]", TORCH)
    pytest(session, *(session.posargs or [f"--ignore={path}" for path in CONTENT]))


@nox.session
def content(session: nox.Session) -> None:
    """Check kernels (compiled, and run on the CPU), wrong answers to exercises, pages without a capture,
    and that the captures are whole.
    """
    install(session, "-e", ".[book,dev]")
    pytest(session, *CONTENT, *session.posargs)


@nox.session
def browser(session: nox.Session) -> None:
    """Look at every page of the built book in Chromium, on wide and narrow screens, in light and dark."""
    install(session, "-e", ".[book]")
    session.run("python", "-m", "tests.book.check_browser", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and the separation of the two wings."""
    install(session, "-e", ".[book,dev]")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def exercises(session: nox.Session) -> None:
    """Grade your answers. An exercise's ID and options go after --."""
    install(session, "-e", ".", *([TORCH] if shutil.which("nvidia-smi") else []))
    labcode(session, "exercises", *session.posargs)


@nox.session
def solutions(session: nox.Session) -> None:
    """For authors: starters are up to date and fail, solutions pass."""
    install(session, "-e", ".")
    labcode(session, "exercises", "--solutions", *session.posargs)


@nox.session
def capture(session: nox.Session) -> None:
    """Measure everything again on this GPU machine: nox -s capture -- --set my-h100.

    Options: --only-missing goes on where it ended, --budget 30m takes what fits, --gpus 0,1 shares the work.
    """
    install(session, "-e", ".[gpu]", TORCH)
    labcode(session, "capture", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure: nox -s bench -- --set my-h100 runs the timing experiment, otherwise reports beside nsys' own.

    nox -s bench -- kernels measures the kernels.
    """
    if "--set" in session.posargs:
        install(session, "-e", ".[gpu]", TORCH)
        labcode(session, "capture", "measuring", *session.posargs)
    elif session.posargs[:1] == ["kernels"]:
        install(session, "-e", ".[gpu]", TORCH)
        labcode(session, "bench", *session.posargs)
    else:
        install(session, "-e", ".")
        words = session.posargs[1:] if session.posargs[:1] == ["reports"] else session.posargs
        labcode(session, "bench", "reports", *words)


@nox.session
def linkcheck(session: nox.Session) -> None:
    """Check the links to other hosts (needs network)."""
    install(session, "-e", ".[book]")
    labcode(session, "book", "--what", "linkcheck", *session.posargs)


@nox.session
def notebooks(session: nox.Session) -> None:
    """Write every page as an executed notebook into _build/notebooks."""
    install(session, "-e", ".[book]")
    labcode(session, "book", "--what", "notebooks", *session.posargs)


@nox.session
def pdf(session: nox.Session) -> None:
    """Make a PDF of the book (needs latexmk and xelatex)."""
    install(session, "-e", ".[book]")
    labcode(session, "book", "--what", "pdf", *session.posargs)
