"""Where the solutions are, in a checkout or sealed in a learner's copy: a home in, their folder out.

A copy that an instructor hands out (`labcode.kit.hand_out`) has one text in place of the solutions,
``solutions/sealed.txt``: a packed archive in letters. Nobody comes across the answers in an editor or by a
search. Secret they are not: grading must open the seal, and so can whoever reads this module.
"""

import atexit
import base64
import binascii
import functools
import io
import lzma
import tarfile
from contextlib import ExitStack
from pathlib import Path

from labcode.errors import LabError
from labcode.outputs import private_folder
from labcode.store import unpack_tar

SEALED = "sealed.txt"
_COLUMNS = 100
_open = ExitStack()  # what was unpacked goes when this process ends
atexit.register(_open.close)


def is_sealed(home: Path) -> bool:
    """Whether the solutions of a checkout are sealed."""
    return (home / "solutions" / SEALED).is_file()


def root(home: Path) -> Path:
    """The folder ``solutions`` of a checkout; where sealed, a private one that goes with this process.

    `LabError` for a seal that is damaged.
    """
    return _unpacked(home / "solutions" / SEALED) if is_sealed(home) else home / "solutions"


def seal(files: dict[str, Path]) -> bytes:
    """The text that stands for files, by their names below ``solutions``."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, path in sorted(files.items()):
            info, content = tarfile.TarInfo(name), path.read_bytes()
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    text = base64.b85encode(lzma.compress(packed.getvalue()))
    return b"\n".join(text[at : at + _COLUMNS] for at in range(0, len(text), _COLUMNS)) + b"\n"


@functools.cache
def _unpacked(file: Path) -> Path:
    folder = _open.enter_context(private_folder()) / "solutions"
    try:
        content = lzma.decompress(base64.b85decode(b"".join(file.read_bytes().split())))
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            unpack_tar(tar, folder)
    except (ValueError, binascii.Error, lzma.LZMAError, EOFError, tarfile.TarError):
        raise LabError(f"{file}: damaged; take it from the copy that you were given once more") from None
    return folder
