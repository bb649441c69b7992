"""Which versions of each format are read, how a reader knows, and what it does with a newer one: rows out.

The numbers are those that the readers themselves compare with.
"""

from labcode.reports import FORMATS, imported
from labcode.reports.common import Read

VERSIONS: tuple[Read, ...] = tuple(
    row for one in FORMATS.values() if one.versions is not None for row in imported(one.versions)
)
