"""What stands in a power log (``*.power.json``, ``*.power.json.xz``): its structure, and one written.

Inert JSON. Times are nanoseconds of CLOCK_MONOTONIC, the clock of `time.monotonic_ns`. ``clock.realtime_ns``
pairs them with UTC (ns since 1970) at the start, at the end, once a minute and where UTC stepped. A capture
of the same run has NVTX marks `CLOCK_MARK`, which pair its own clock with this one.

Of each device the columns have a value for each sample, null where the reading failed: a whole column may be
missing where the GPU lacks the reading. ``energy_mj`` counts millijoules since the driver was loaded, and is
what NVML's counter said, not what was true at that moment: the counter is updated at intervals.

Each sample is one call of NVML, made between ``before_ns`` and ``after_ns``. A call may wait for a tenth of a
second and tells nothing of when within it the value was read: both times bound it. In a log of version 1
stands only the middle of both, ``t_ns``.
"""

import lzma
from pathlib import Path

import msgspec

from labcode.reports.common import Read

SCHEMA = "labcode.power"
VERSION = 2

READ = (
    Read(
        "Power logs: .power.json",
        f"versions 1 to {VERSION}",
        "version in the file",
        f"version {VERSION + 1}: refused",
    ),
)
CLOCK_MARK = "lab:clock"  # followed by a blank and a time: "lab:clock 123456789"
COMMAND, IDLE = "command", "idle"  # names of windows
COLUMNS = (
    "instant_mw",
    "average_mw",
    "energy_mj",
    "sm_mhz",
    "memory_mhz",
    "temperature_c",
    "reasons",
)
REASONS = {  # NVML's bits of why clocks are what they are: in neutral words, and whether they slow work down
    0x1: ("idle", False),
    0x2: ("clocks set by a user", True),
    0x4: ("power cap", True),
    0x8: ("hardware slowdown", True),
    0x10: ("sync boost", True),
    0x20: ("temperature, by software", True),
    0x40: ("temperature, by hardware", True),
    0x80: ("power brake", True),
    0x100: ("display clock", True),
}

Values = list[int | None]


class Device(msgspec.Struct, kw_only=True):
    """One GPU and its samples.

    ``number`` as CUDA counts in the process that was metered, ``nvml_index`` as the machine does; ``digest``
    stands for its UUID; ``samples_merged``: neighbors that were averaged into one sample to bound
    memory (1: none); ``peak_mw`` the highest instantaneous power before that; ``lost``: why its samples end
    early, in words, or ''.
    """

    number: int
    name: str
    nvml_index: int | None = None
    digest: str = ""
    power_limit_w: float | None = None
    samples_merged: int = 1
    peak_mw: int | None = None
    lost: str = ""
    before_ns: list[int] = []
    after_ns: list[int] = []
    t_ns: list[int] = []  # of version 1, which has no others
    instant_mw: Values | None = None
    average_mw: Values | None = None
    energy_mj: Values | None = None
    sm_mhz: Values | None = None
    memory_mhz: Values | None = None
    temperature_c: Values | None = None
    reasons: Values | None = None


class Window(msgspec.Struct):
    """A named stretch of time; one that was still open at the end ends there."""

    name: str
    begin_ns: int
    end_ns: int


class Clock(msgspec.Struct):
    """Which clock the times are of; pairs of it and UTC, in ns."""

    name: str
    realtime_ns: list[tuple[int, int]]


class Document(msgspec.Struct, kw_only=True):
    """A power log. ``partial``: something is missing that was to be measured; ``problems`` say what."""

    schema: str = SCHEMA
    version: int = VERSION
    labcode: str = ""
    driver: str = ""
    clock: Clock
    period_ns: int
    command: str = ""
    exit_code: int | None = None
    partial: bool = False
    problems: list[str] = []
    windows: list[Window] = []
    devices: list[Device] = []


def write_document(document: Document, path: Path) -> None:
    """Write a log to a path, packed where its name ends in .xz."""
    text = msgspec.json.encode(document) + b"\n"
    path.write_bytes(lzma.compress(text) if path.name.endswith(".xz") else text)
