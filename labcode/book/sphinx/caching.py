"""Where pages are executed: folders in, an initialized cache and a quiet IPython profile out."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_KEPT = 4
_KERNEL_CONFIG = """\
c = get_config()
c.IPKernelApp.log_level = "ERROR"  # no advice about transports on every page
c.HistoryManager.enabled = False  # kernels that start at once would wait for one history file
"""


def prepare(folder: Path) -> None:
    """Create the cache's database and mark the cache as used now; remove all but the last few caches beside
    it.

    Several processes read pages at once, and each would otherwise create the database of an empty cache.
    """
    from jupyter_cache import get_cache

    folder.mkdir(parents=True, exist_ok=True)
    _ = get_cache(folder).db
    os.utime(folder)
    prune(folder.parent, keep=_KEPT)


def prune(parent: Path, keep: int) -> None:
    """Remove all but the ``keep`` most recently used caches of a folder of caches."""
    caches = [path for path in parent.iterdir() if (path / "global.db").is_file()]
    for path in sorted(caches, key=lambda path: path.stat().st_mtime, reverse=True)[keep:]:
        shutil.rmtree(path, ignore_errors=True)


def write_profile(folder: Path) -> None:
    """Write the IPython profile that pages run under: it is the book's own, so nobody's start-up files reach
    the pages.
    """
    profile = folder / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    path = profile / "ipython_kernel_config.py"
    if not path.is_file() or path.read_text(encoding="utf-8") != _KERNEL_CONFIG:
        path.write_text(_KERNEL_CONFIG, encoding="utf-8")
