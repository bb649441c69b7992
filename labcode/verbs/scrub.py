"""`labcode scrub`: a file to publish in; a copy without hosts, users, environments and paths out."""

from collections.abc import Sequence
from pathlib import Path

from labcode.capture import scan
from labcode.errors import LabError
from labcode.reports import FORMATS, doing, expect

_NOT_WRITTEN = (".nsys-rep", ".pickle", ".pkl")  # ends of what is read alone


def scrub(file: Path, output: Path | None, also: Sequence[str] = (), *, force: bool = False) -> Path:
    """Write a scrubbed copy of ``file``, without ``output`` beside it; its path.

    ``also`` are names that must not be published. Raises `LabError` for bad use, a file that is there
    already (without ``force``) and one that is not scrubbed, and what scrubbing it raises.
    """
    scrubber = doing("scrub", file)
    one = FORMATS[expect(file, "scrub")]
    ends = [end for end in one.suffixes if end not in _NOT_WRITTEN]
    if output is not None and not output.name.endswith(tuple(ends)):
        raise LabError(f"{output}: it will be {one.what}; name a file that ends in {ends[0]}")
    written: Path = scrubber(file, output, tuple(also), force=force)
    return written


def doubts(written: Path) -> Sequence[str]:
    """What of a scrubbed file people have to judge."""
    return scan.look_into(written, str(written)).review
