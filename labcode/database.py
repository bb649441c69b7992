"""SQLite files that are only read: a path in; its address, or a connection, out."""

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote


def address(path: Path) -> str:
    """The URI under which SQLite reads a file and leaves nothing beside it, neither a journal nor a lock."""
    # Not by Path.as_uri: from CPython 3.14 on that loads urllib.request, with all that it needs.
    return f"file://{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"


def open_read_only(path: Path) -> sqlite3.Connection:
    """A connection that neither writes nor runs what is stored in the file (views, triggers, defaults).

    `sqlite3.Error` for a file that is not there, once it is read.
    """
    connection = sqlite3.connect(address(path), uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection
