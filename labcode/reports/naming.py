"""A file's name in; the rank that it tells out."""

import re
from pathlib import Path

_RANK = re.compile(r"(?:^|[^a-z])rank[-_. ]?(\d{1,7})(?!\d)", re.IGNORECASE)


def rank_in_name(path: Path) -> int:
    """The rank that a file's name tells, as in ``run.rank3.sqlite``; -1 where it tells none."""
    found = _RANK.search(path.name)
    return int(found[1]) if found else -1
