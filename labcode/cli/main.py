"""The ``labcode`` command: its commands together, and every way in which one ends."""

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, NoReturn

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]

from labcode import __version__
from labcode.cli.plain import ASKED, PLAIN
from labcode.ending import Ended, interruptible, signals_as_exceptions
from labcode.errors import LabError, describe_os_error
from labcode.show.terminal import guarded

_ENDS = (
    "Exit codes: 0 done; 1 the answer is no; 2 bad use or bad input; 128 and a signal's number where "
    "one ended it, which is 141 where whoever read the output (`| head`) had enough. Files appear whole or "
    "not at all, and those that are there already are overwritten with --force alone. Tables and Markdown "
    "show control characters of names as ␛ or \\u202e and cut endless names; CSV and JSON in files and pipes "
    "have them as they were recorded."
)
_LONGEST = 4_000  # characters of a line that says what is wrong

# Each command and group, in the order of the help, by import path: one that is named is imported alone.
COMMANDS = {
    **dict.fromkeys(("doctor", "capture", "kit", "energy", "record", "profile"), "labcode.cli.record"),
    **dict.fromkeys(("stats", "export", "diagnose", "compare", "timeline", "flame"), "labcode.cli.read"),
    **dict.fromkeys(("roofline", "report", "scrub"), "labcode.cli.read"),
    **dict.fromkeys(("exercises", "grades", "book", "slides", "new"), "labcode.cli.study"),
    "completion": "labcode.cli.completion",
}
GROUPS = {name: f"labcode.cli.{name}" for name in ("captures", "bench", "course")}


def program(only: str = "") -> typer.Typer:
    """All commands; or ``only`` the one of a name, where there is one, so that no other is imported."""
    app = typer.Typer(
        name="labcode",
        help="The Profiling Lab: capture, read, analyze and draw GPU profiles; grade the book's exercises.",
        epilog=_ENDS,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        **PLAIN,
    )
    app.callback()(_root)
    known = only in COMMANDS or only in GROUPS
    for name, module in GROUPS.items():
        if not known or name == only:
            app.add_typer(getattr(import_module(module), f"{name}_app"), name=name)
    for name, module in COMMANDS.items():
        if not known or name == only:
            its_own = {"allow_interspersed_args": name != "profile"}  # a script's options are its own
            command = getattr(import_module(module), name)
            app.command(context_settings={**PLAIN["context_settings"], **its_own})(command)
    return app


def _version(value: bool) -> None:
    if value:
        typer.echo(f"labcode {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    limit: Annotated[
        str,
        typer.Option(
            "--limit",
            metavar="GIB",
            help="To how many GiB a packed capture may unpack, by default 200 times its size, 0.25 at least, "
            "and how large a trace (0.5) and a report of nsys (8) may be.",
        ),
    ] = "",
) -> None:
    """Options that come before the command."""
    if limit:
        from labcode.store import LIMIT_VARIABLE, unpack_limit  # each start would pay for it

        os.environ[LIMIT_VARIABLE] = limit  # processes that read for this one have it, too
        unpack_limit(0)


def _fail(message: str) -> NoReturn:
    if len(message) > _LONGEST:  # a word that was given, or what a tool printed: its begin and its end tell
        message = f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
    print(f"labcode: {message}", file=sys.stderr)
    sys.exit(2)


def _cut_short(error: Exception) -> str:
    """What to say of a file that ended too early; bytecode that Python wrote of a module is named."""
    trace = error.__traceback__
    while trace is not None:
        if path := trace.tb_frame.f_locals.get("bytecode_path"):  # of importlib, which does not name it
            return f"{path}: damaged bytecode of Python ({error}); delete it, it is written anew"
        trace = trace.tb_next
    return f"a file ended too early ({error or 'no more data'}); fetch or record it again"


def _abandon_stdout() -> None:
    """Print what can still be printed, and keep the interpreter from trying again when it ends.

    Typer hides a closed pipe behind a wrapper that says nothing; the stream beneath does.
    """
    try:
        for stream in (sys.stdout, sys.__stdout__):
            if stream is not None:
                stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Entry point: run the command line and turn every foreseeable failure into one line and an exit code."""
    with guarded(), signals_as_exceptions(), interruptible() as interrupted:
        _main(interrupted)


def _main(interrupted: Sequence[int]) -> NoReturn:
    try:
        if ASKED in os.environ:
            completion_init()
        command = program(sys.argv[1] if len(sys.argv) > 1 else "")
        code = command(standalone_mode=False, complete_var=ASKED)
        if interrupted:
            raise KeyboardInterrupt  # of which some versions of Typer make an exit code
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except LabError as error:
        _fail(str(error))
    except (typer.Abort, KeyboardInterrupt, EOFError) as error:
        early = error if isinstance(error, EOFError) else error.__cause__  # which Typer takes for Ctrl-D
        if isinstance(early, EOFError):
            _fail(_cut_short(early))
        print("labcode: interrupted; nothing was left half-written", file=sys.stderr)
        sys.exit(130)
    except Ended as ended:
        print(f"labcode: ended by {ended}; nothing was left half-written", file=sys.stderr)
        sys.exit(128 + ended.number)
    except (BrokenPipeError, SystemExit) as end:
        if not isinstance(end, BrokenPipeError) and not isinstance(end.__context__, BrokenPipeError):
            raise
        _abandon_stdout()  # whoever read it has enough; Typer says 1 of that, which would be an answer
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        _abandon_stdout()
        _fail(describe_os_error(error))
    except RecursionError:
        _fail("what was read is nested too deep for a capture; record it again")
    except MemoryError:
        _fail("it takes more memory than there is; record less, or use a larger machine")
    except Exception as error:
        # Newer Typer bundles its own copy of click, so a usage error is known by what it can do.
        describe = getattr(error, "format_message", None)
        if describe is None:
            raise
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context is not None else ""
        if type(error).__name__ == "NoArgsIsHelpError":  # no command was named: its message is the help text
            print(describe() or "", file=sys.stderr)
            sys.exit(2)
        _fail(" ".join(str(describe()).split()) + hint)
