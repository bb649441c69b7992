"""What must not be published: a file's bytes or texts in, the private things found in them out."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_PRINTABLE = re.compile(rb"[\x20-\x7e]{5,}")
_PATH = re.compile(r"(?<![\w/.\-])(?:~?/(?:[\w.+@%~\-]+/)+[\w.+@%~\-]*|/(?:home|Users|root)\b(?:/[\w.\-]*)?)")
_WHOLE_PATH = re.compile(r"/(?:[^/\0]+/)+[^/\0:;,=]+")
_KNOWN_PLACES = (
    re.compile(r"/((?:site|dist)-packages/)"),
    re.compile(r"/(labcode/(?:[a-z_]+/)*[a-z_]+\.py)$"),
    re.compile(r"/(lib/python\d+\.\d+/)"),
)
_WINDOWS_PATH = re.compile(r"\b[A-Za-z]:\\(?:[^\\\s\"']+\\)*([^\\\s\"']*)")
_HOMES = re.compile(r"/(?:home|Users)/[^/]+/?|/root\b/?")
_COMMON_HOST_NAMES = frozenset(
    {"localhost", "ubuntu", "debian", "linux", "host", "nvidia", "workstation", "server"}
)
_PATTERNS: dict[str, re.Pattern[bytes]] = {
    "an absolute path": re.compile(
        rb"(?<![\w/.\-])/(?:home|Users|root|mnt|data|scratch|work|workspace|tmp|opt|usr|var|etc|lustre|gpfs|nfs)/[\w.+@~\-]+"
    ),
    "an environment variable": re.compile(
        rb"(?<![A-Za-z])(?:PATH|HOME|USER|LOGNAME|HOSTNAME|PWD|OLDPWD|SHELL|MAIL|LANG|PYTHONPATH|LD_LIBRARY_PATH|VIRTUAL_ENV"
        rb"|SLURM_\w+|SSH_\w+|AWS_\w+|\w*(?:TOKEN|SECRET|PASSWORD|API_KEY))=[\"']?[\w/.~\-]"
    ),
    "a host name": re.compile(
        rb"\bip-\d+-\d+-\d+-\d+\b|\b[a-z0-9][a-z0-9\-]*\.(?:internal|localdomain|lan|corp|cluster\.local|amazonaws\.com)\b"
        rb"|\b192\.168\.\d+\.\d+\b"
    ),
    "an e-mail address": re.compile(rb"\b[A-Za-z0-9._+\-]{2,}@[A-Za-z0-9\-]{2,}\.[a-z]{2,6}\b"),
    "the id of a device": re.compile(rb"\b(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-"),
}


def reduce_paths(text: str) -> str:
    """Absolute paths in a text become their last part: ``/home/me/a.py line 3`` → ``a.py line 3``."""
    if "/" in text:
        text = _PATH.sub(
            lambda m: "~" if _HOMES.fullmatch(m.group()) else m.group().rstrip("/").rpartition("/")[2], text
        )
    return _WINDOWS_PATH.sub(r"\1", text) if "\\" in text else text


def reduce_file(text: str, root: Path | None = None) -> str:
    """A text that is one absolute path of a source or library, without what says whose machine it was.

    The path below the repository (``root``, or wherever its ``labcode`` folder lies), below
    ``site-packages``, or from ``lib/python3.12`` on; of any other path the last part. Other texts go through
    `reduce_paths`.
    """
    if not _WHOLE_PATH.fullmatch(text):
        return reduce_paths(text)
    if root is not None and text.startswith(f"{root}/"):
        return text[len(f"{root}/") :]
    for pattern in _KNOWN_PLACES:
        place = pattern.search(text)
        if place is not None:
            return text[place.start(1) :]
    return text.rstrip("/").rpartition("/")[2]


def reduce_record(value: Any) -> Any:
    """`reduce_paths` for every text of a JSON value."""
    if isinstance(value, str):
        return reduce_paths(value)
    if isinstance(value, list):
        return [reduce_record(item) for item in value]
    if isinstance(value, dict):
        return {key: reduce_record(item) for key, item in value.items()}
    return value


def host_names() -> tuple[str, ...]:
    """The names of this machine, to search for in what it is about to publish; common names are left out."""
    name = socket.gethostname()
    names = {name, name.split(".")[0]}
    return tuple(sorted(n for n in names if len(n) >= 5 and n.lower() not in _COMMON_HOST_NAMES))


def find_private(data: bytes, names: Iterable[str] = ()) -> list[str]:
    """What is private in a file's bytes: one line for each kind of find, with the first find of it.

    ``names`` are further words to look for (as whole words), such as `host_names`.
    """
    text = b"\n".join(_PRINTABLE.findall(data))
    patterns = dict(_PATTERNS)
    for name in names:
        patterns[f"the name {name}"] = re.compile(rb"(?<![\w\-])" + re.escape(name.encode()) + rb"(?![\w\-])")
    found = []
    for what, pattern in patterns.items():
        match = pattern.search(text)
        if match is not None:
            found.append(f"{what} ({match.group()[:60].decode(errors='replace')})")
    return found


def find_private_in(path: Path, names: Iterable[str] = ()) -> list[str]:
    """`find_private` for a file, which is read whole."""
    return find_private(path.read_bytes(), names)
