"""Which versions of each format are read, how a reader knows, and what it does with a newer one: rows out.

The numbers are those that the readers themselves compare with.
"""

from dataclasses import dataclass

from labcode.reports.kineto.schema import NEWEST_SCHEMA
from labcode.reports.memory.history import SCHEMA
from labcode.reports.ncu.open import OLDEST_READER
from labcode.reports.ncu.wire import NEWEST_FORMAT
from labcode.reports.nsys.schema import MAJOR, NEWEST_MINOR, OLDEST_MINOR
from labcode.reports.power.schema import VERSION


@dataclass(frozen=True)
class Read:
    """A format: the versions that are read, where a file says its own, what becomes of a newer one."""

    what: str
    versions: str
    told_by: str
    newer: str


VERSIONS: tuple[Read, ...] = (
    Read(
        "Nsight Systems: .sqlite, .nsys.xz",
        f"export schemas {MAJOR}.{OLDEST_MINOR} to {MAJOR}.{NEWEST_MINOR} (nsys 2023.4 to 2026)",
        "EXPORT_SCHEMA_VERSION in the export",
        f"{MAJOR}.{NEWEST_MINOR + 1} and later: read with a warning, columns are looked up by name; "
        f"{MAJOR + 1}.0: refused",
    ),
    Read(
        "Nsight Systems: .nsys-rep",
        "what the nsys on this machine exports",
        "nsys itself",
        "nsys says that it cannot; export it where it was recorded",
    ),
    Read(
        "Nsight Compute: .ncu-rep",
        f"file formats up to {NEWEST_FORMAT}, by NVIDIA's package ncu-report {OLDEST_READER} or newer",
        "number in the file's header; the ncu that wrote it",
        f"format {NEWEST_FORMAT + 1}: refused; an ncu newer than ncu-report: read with a warning",
    ),
    Read(
        "torch.profiler: .trace.json",
        f"schema {NEWEST_SCHEMA}, as PyTorch 2.x writes it",
        "schemaVersion in the trace, if it has one",
        f"schema {NEWEST_SCHEMA + 1}: read with a warning; unknown events and members are left out",
    ),
    Read(
        "Perfetto: .pftrace",
        "track events and their descriptors, as of 2025",
        "nothing: fields have numbers",
        "read; packets and fields that are not known are counted and left out",
    ),
    Read(
        "PyTorch's allocator: .memory.json",
        f"schemas up to {SCHEMA}",
        "schema in the file",
        f"schema {SCHEMA + 1}: refused",
    ),
    Read(
        "Power logs: .power.json",
        f"versions 1 to {VERSION}",
        "version in the file",
        f"version {VERSION + 1}: refused",
    ),
)
