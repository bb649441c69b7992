"""One judge for all cases: a command of ``labcode`` and what it reads in; what is wrong with its end out.

Each case runs in a process of its own that this one forks, with everything imported already, so that it costs
milliseconds, and so that what it holds, how long it takes and what it leaves behind can be told. Whatever it
is given, a command ends with a known code, in time, within its memory, and says what was wrong in one line.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.hostile.values import MARK

SECONDS = 10.0  # of the processor
LONGEST = 600.0  # of a clock on the wall, on a machine that has other things to do
MEMORY = 1 << 30  # beyond the size of what is read
CODES = (0, 1, 2)
STEERS = re.compile(  # what a terminal would obey, or what turns and hides text
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)


@dataclass(frozen=True)
class Asked:
    """The words after ``labcode``; ``{out}`` in them is a new folder, and what is printed Markdown or JSON.

    ``before`` is called in the process of the case when all is ready; ``after`` looks at the folder once the
    command is done, in that process; it says what is wrong.
    """

    words: Sequence[str]
    markdown: bool = False
    document: bool = False  # stdout is one JSON document, or empty
    environment: Mapping[str, str] = field(default_factory=dict)
    file_bytes: int = 0  # no file can become larger, as on a disk that is full
    before: Callable[[], None] | None = None
    after: Callable[[Path, int], str] | None = None


@dataclass
class Ended:
    """How a case ended."""

    code: int | None
    stdout: str
    stderr: str
    seconds: float
    grown: int
    read: int
    faults: list[str]


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def run(make: Callable[[Path], Asked], *, terminal: bool) -> Ended:
    """Make a case in a new folder, run its command there, and judge it."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        told = folder.with_name(folder.name + ".told")
        child = os.fork()
        if child == 0:
            try:
                _play(folder, told, make, terminal)
            except BaseException:
                import traceback

                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(99)
        status, usage = _wait(child)
        return _judged(folder, told, status, usage)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_name(folder.name + ".told").unlink(missing_ok=True)


def _wait(child: int) -> tuple[int | None, Any]:
    """The status of a process and what it used; None, and it is killed with its group, after `LONGEST`."""
    end = time.monotonic() + LONGEST
    pause = 0.001
    while time.monotonic() < end:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            return status, usage
        time.sleep(pause)
        pause = min(0.02, pause * 1.5)
    os.killpg(child, signal.SIGKILL)
    _, _, usage = os.wait4(child, 0)
    return None, usage


def _play(folder: Path, told: Path, make: Callable[[Path], Asked], terminal: bool) -> None:
    """The process of a case: its inputs, its command; what is to be judged goes into ``told``."""
    os.setpgid(0, 0)
    for name in ("in", "out", "tmp", "home"):
        (folder / name).mkdir()
    os.chdir(folder)
    own = {"TMPDIR": folder / "tmp", "HOME": folder / "home", "LABCODE_CACHE": folder / "home" / "cache"}
    os.environ.update({key: str(value) for key, value in own.items()})
    os.environ.update(TERM="dumb", COLUMNS="120", NO_COLOR="1")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # `labcode capture` would measure for an hour
    tempfile.tempdir = None
    asked = make(folder)
    os.environ.update(asked.environment)
    before = _held(folder)
    out, err = (folder.with_name(f"{folder.name}.{name}") for name in ("stdout", "stderr"))
    kind = _Terminal if terminal else io.TextIOWrapper
    sys.stdout, sys.stderr = (
        kind(path.open("w+b", buffering=0), encoding="utf-8", write_through=True)  # type: ignore[arg-type]
        for path in (out, err)
    )
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    base, began = _peak(), _used()
    sizes = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_mapped() + 4 * MEMORY, sizes))
    if asked.file_bytes:  # what is imported first would be kept cut off, for all who import it later
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked.file_bytes, resource.RLIM_INFINITY))
    if asked.before is not None:
        asked.before()
    code: object
    try:
        from labcode.cli.main import main

        sys.argv = ["labcode", *(word.format(out=folder / "out") for word in asked.words)]
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 70
    resource.setrlimit(resource.RLIMIT_AS, (sizes, sizes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    found: dict[str, Any] = {"code": code if isinstance(code, int) else int(bool(code))}
    found |= {"grown": _peak() - base, "seconds": _used() - began, "before": before, "asked": asked.words}
    found |= {"markdown": asked.markdown, "document": asked.document, "terminal": terminal, "after": ""}
    if asked.after is not None:
        found["after"] = asked.after(folder, found["code"])
    found["stdout"], found["stderr"] = (path.read_bytes() for path in (out, err))
    out.unlink()
    err.unlink()
    told.write_bytes(pickle.dumps(found))
    os._exit(0)


def _judged(folder: Path, told: Path, status: int | None, usage: Any) -> Ended:
    for name in ("stdout", "stderr"):
        folder.with_name(f"{folder.name}.{name}").unlink(missing_ok=True)
    if status is None or not told.is_file():
        how = "hangs" if status is None else f"the process died (status {status})"
        return Ended(None, "", "", usage.ru_utime + usage.ru_stime, 0, 0, [how])
    found = pickle.loads(told.read_bytes())
    faults: list[str] = []
    texts = []
    for name in ("stdout", "stderr"):
        try:
            texts.append(found[name].decode())
        except UnicodeDecodeError:
            faults.append(f"{name} is no UTF-8")
            texts.append(found[name].decode(errors="replace"))
    out, err = texts
    code, read = found["code"], sum(size for size, _ in found["before"].values())
    if code not in CODES:
        faults.append(f"exit code {code}")
    if "Traceback (most recent call last)" in err + out:
        faults.append("a traceback")
    warned = [line for line in err.splitlines() if "Warning: " in line]
    if any("/rules.py:" not in line for line in warned):  # of one's own rules Python may warn
        faults.append("a warning of Python")
    if code == 2:
        lines = [line for line in err.splitlines() if line.startswith("labcode: ")]
        if len(lines) != 1 or err.splitlines()[-1] != lines[0]:
            faults.append("it does not say in one line what is wrong")
        elif len(lines[0]) > 6000:
            faults.append(f"a line of {len(lines[0])} characters says what is wrong")
    if found["seconds"] > SECONDS:
        faults.append(f"{found['seconds']:.0f} s")
    if found["grown"] > MEMORY + read:
        faults.append(f"{found['grown'] / MEMORY:.1f} GiB")
    shown = err + (out if found["terminal"] else "")
    if steers := STEERS.search(shown):
        faults.append(f"{steers[0]!r} on a terminal")
    if found["markdown"]:
        faults += markdown_faults(out)
        if STEERS.search(out):
            faults.append("control characters in Markdown")
    if found["document"] and out:
        try:
            json.loads(out, parse_constant=_no_constant)
        except ValueError as error:
            faults.append(f"no JSON: {error}")
    words = list(map(str, found["asked"]))
    places = [os.path.relpath(after, folder) for word, after in pairwise(words) if word == "-o"]
    faults += _left(folder, found["before"], code, places)
    if found["after"]:
        faults.append(found["after"])
    return Ended(code, out, err, found["seconds"], found["grown"], read, faults)


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _left(folder: Path, before: Mapping[str, tuple[int, str]], code: int, places: Sequence[str]) -> list[str]:
    """What a command left behind: changed inputs, hidden or half-written files; ``places`` were asked for."""
    faults = []
    after = _held(folder)
    for name, held in before.items():
        if after.get(name) != held and not name.startswith("home/"):  # sets are there to be changed
            faults.append(f"{name} was changed")
    for name in after.keys() - before.keys():
        if "/.labcode-" in name or name.startswith("tmp/"):
            faults.append(f"{name} is left")
        elif not code and any(_asked_for(name, one) for one in places):
            continue
        elif name.startswith("in/"):
            if code or ".scrubbed" not in name:
                faults.append(f"{name} is beside the input")
        elif name.startswith("out/"):
            if code == 2:
                faults.append(f"{name} is there although it failed")
            elif after[name][1] != "folder" and (fault := _half(folder / name)):
                faults.append(f"{name}: {fault}")
        elif not name.startswith("home/"):
            faults.append(f"{name} is left")
    return faults


def _asked_for(name: str, place: str) -> bool:
    """Whether something lies where a command was asked to write, or is a folder on the way there."""
    return place == "." or name == place or name.startswith(f"{place}/") or place.startswith(f"{name}/")


def _half(path: Path) -> str:
    """What is wrong with a file that was written."""
    data = path.read_bytes()
    if not data and path.suffix not in (".txt", ".csv"):  # the CSV of a report without rows, as of nsys
        return "empty"
    try:
        if path.suffix == ".json":
            json.loads(data)
        elif path.suffix == ".svg":
            ElementTree.fromstring(data)
        elif path.suffix == ".html":
            return page_fault(data.decode())
        elif path.suffix == ".md":
            return "; ".join(markdown_faults(data.decode()))
    except (ValueError, ElementTree.ParseError) as error:
        return f"half-written ({error})"
    return ""


def page_fault(page: str) -> str:
    """What is wrong with a page: it ends, runs no script of a name, and holds nothing that turns text."""
    if not page.rstrip().endswith("</html>"):
        return "half-written"
    for pattern in (rf"<{MARK}", rf"<script>{MARK}", rf"<img[^>]*{MARK}", rf"href=.?javascript:[^>]*{MARK}"):
        if re.search(pattern, page):
            return f"{pattern} in the page"
    if steers := STEERS.search(page):
        return f"{steers[0]!r} in the page"
    return ""


def markdown_faults(text: str) -> list[str]:
    """What a name became in Markdown, beside text: HTML, links, pictures, headings, mentions."""
    from markdown_it import MarkdownIt

    faults = []
    plain = []
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(text):
        for part in (token, *(token.children or ())):
            if part.type in ("html_inline", "html_block", "link_open", "image", "fence", "code_block"):
                if MARK in part.content or MARK in str(part.attrs):
                    faults.append(f"{part.type} in Markdown: {part.content[:60]!r} {part.attrs}")
            elif part.type == "text":
                plain.append(part.content)
    if found := re.search(rf"@{MARK}|\w://{MARK}|\bwww\.{MARK}|javascript:{MARK}", "\n".join(plain)):
        faults.append(f"{found[0]} is text that sites make a link of")
    return faults


def _held(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file below a folder: its size and hash; folders that hold nothing count, too."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace")
        if path.is_symlink():
            found[name] = (0, str(path.readlink()))
        elif path.is_file():
            with (
                suppress(FileNotFoundError, PermissionError),
                path.open("rb") as handle,
            ):  # others may take it away
                found[name] = (path.stat().st_size, hashlib.file_digest(handle, "sha256").hexdigest())
        elif path.is_dir() and path.parent != folder and not name.startswith("home/"):
            found[name] = (0, "folder")
    return found


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _peak() -> int:
    return _status("VmHWM")


def _mapped() -> int:
    return _status("VmSize")


def _used() -> float:
    every = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in every)
