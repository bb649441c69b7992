"""Make an ``.ncu-rep`` fit to publish: a report in, a copy without host, user, network and folders out.

A report names the host (its name, its network addresses, ncu's command line, the path of the program: in
the headers of its blocks) and folders of the machine that compiled (source paths in the line tables of
the programs it embeds, in the list of sources and in the results of rules). Headers are written anew.
Entries keep their length, because the embedded programs hold offsets: a folder is overwritten by as many
characters of ``././``, which leaves a path relative to nothing, ``k.cu`` of ``/home/me/k.cu``. Of imported
sources the reader's own are kept; those of the CUDA toolkit, the system and installed packages belong to
others, and are overwritten by blanks, line by line. So does the machine code of NVIDIA's libraries, of which
zeros are left: counters of their kernels stay. Processes are numbered anew, with numbers of as many bytes; of
the time of the session the day stays.
"""

import re
from collections.abc import Callable
from pathlib import Path

from labcode.capture import privacy, scan
from labcode.capture.privacy import Names
from labcode.capture.scrub import LEFT, compress
from labcode.errors import InputError
from labcode.outputs import free, whole
from labcode.reports.ncu import wire as ncu_wire
from labcode.reports.ncu.open import check_frame, unpacked
from labcode.reports.ncu.wire import Field

_ROOTS = (
    rb"home|Users|root|mnt|data|scratch|work|workspace|tmp|opt|usr|var|etc|lustre|gpfs|nfs|builds|project"
)
_FOLDER = re.compile(rb"(?<![\w/.\-])/(?:" + _ROOTS + rb")/(?:[\w.+@%~\-]+/)*")
_SOURCE_NAMES = (8, 1, 1)  # in a source: the files its line tables name
_FILES, _FILE, _FILE_NAME, _FILE_TEXT = 8, 1, 1, 2  # … and where --import-source put their text
_MODULE, _FUNCTION_NAME = 4, (9, 1, 1)  # its machine code, and what functions it has
_LIBRARY = re.compile(rb"^nvjet_|_xmma_|^cutlass_\d|cublas|cudnn")  # names of functions in cuBLAS and cuDNN
_FOREIGN_FOLDER = re.compile(
    rb"^/(?:usr|opt|nix)/|/(?:site|dist)-packages/|/cuda-?[\d.]*/(?:include|targets)/"
)
_FOREIGN_TEXT = re.compile(
    rb"NOTICE TO LICENSEE|NVIDIA C(?:ORPORATION|orporation)|the LLVM Project|Free Software Foundation"
    rb"|_CUDA_PTX"
)
_NOTICE_BYTES = 8192  # a notice stands at a file's beginning
_PROCESS_ID = 1  # of a process, and of a result
_SESSION_TIME, _DAY_S = 2, 86_400  # seconds since 1970
_FIRST_NUMBERS = (100, 1_000, 100_000, 10_000_000, 1_000_000_000)  # by how many bytes a number takes
_KEPT_SYSTEM = (1, 3, 4)  # of the system: operating system, processor, architecture


def scrub_bytes(data: bytes, names: Names = ()) -> bytes:
    """A report without what names the machine and its people; its entries keep their length."""
    out = bytearray(data[: 8 + int.from_bytes(data[4:8], "little")])
    blocks = list(ncu_wire.blocks(data))
    folders = _folders(data, blocks)
    numbers = _numbers(data, blocks)
    for block in blocks:
        header = b"".join(ncu_wire.put_field(*_header_field(field, numbers)) for field in block.header)
        out += len(header).to_bytes(4, "little") + header
        for begin, end in block.sources:
            out += (end - begin).to_bytes(4, "little")
            out += _masked(_without_folders(_without_foreign(data[begin:end]), folders), names)
        for begin, end in block.results:
            out += (end - begin).to_bytes(4, "little")
            result = _rewritten(data[begin:end], lambda field: _numbered(field, numbers))
            out += _masked(_without_folders(result, folders), names)
    return bytes(out)


def scrub_report(src: Path, dst: Path, also: Names = ()) -> None:
    """Write ``dst`` as a copy of the report ``src`` without anything private and the names ``also``.

    Raises `InputError` for a damaged report, and when something private is left (then nothing is written).
    """
    with unpacked(src).open("rb") as handle:
        check_frame(ncu_wire.FileBytes(handle), src)
        handle.seek(0)
        data = handle.read()
    names = (*also, *privacy.machine_names(), *privacy.stated_names(scan.ncu_texts(data), src))
    clean = scrub_bytes(data, names)
    check_frame(clean, src)
    scan.refuse_private(scan.ncu_texts(clean), names, f"{src}: {LEFT}", InputError)
    with whole(dst, reads=[src]) as made:
        if dst.suffix == ".xz":
            raw = made.with_suffix(".raw")
            raw.write_bytes(clean)
            compress(raw, made)
        else:
            made.write_bytes(clean)


def scrub_file(path: Path, output: Path | None = None, also: Names = (), *, force: bool = True) -> Path:
    """Scrub ``.ncu-rep`` or ``.ncu-rep.xz`` into ``output``, by default ``NAME.scrubbed.ncu-rep[.xz]``."""
    packed = ".xz" if path.name.endswith(".xz") else ""
    stem = path.name.removesuffix(".xz").removesuffix(".ncu-rep")
    output = output or path.with_name(f"{stem}.scrubbed.ncu-rep{packed}")
    free(output, force=force, reads=[path])
    scrub_report(path, output, also)
    return output


def _folders(data: bytes, blocks: list[ncu_wire.Block]) -> list[bytes]:
    """The folders that the report's own fields name, the longest first."""
    found: set[bytes] = set()
    for block in blocks:
        found.add(block.process[2].rpartition("/")[0].encode())
        for begin, end in block.sources:
            found |= {name.rpartition(b"/")[0] for name in _at(data[begin:end], _SOURCE_NAMES)}
    return sorted((f for f in found if f.startswith(b"/") and len(f) > 2), key=len, reverse=True)


def _numbers(data: bytes, blocks: list[ncu_wire.Block]) -> dict[int, int]:
    """Neutral numbers of processes, in the order of the real ones and of as many bytes each."""
    found = {block.process[0] for block in blocks}
    for block in blocks:
        for begin, end in block.results:
            found |= {
                value
                for number, _, value in ncu_wire.fields(data[begin:end])
                if number == _PROCESS_ID and isinstance(value, int)
            }
    numbers = {0: 0}
    for size, first in enumerate(_FIRST_NUMBERS, start=1):
        alike = sorted(number for number in found - {0} if len(ncu_wire.put_varint(number)) == size)
        numbers |= {number: first + place for place, number in enumerate(alike)}
    return numbers


def _numbered(field: Field, numbers: dict[int, int]) -> Field:
    number, kind, value = field
    if number != _PROCESS_ID or not isinstance(value, int):
        return field
    return number, kind, numbers.get(value, value)


def _at(message: bytes, path: tuple[int, ...]) -> list[bytes]:
    """The values at a path of field numbers."""
    values = [message]
    for number in path:
        values = [
            v for one in values for n, _, v in ncu_wire.fields(one) if n == number and isinstance(v, bytes)
        ]
    return values


def _without_foreign(source: bytes) -> bytes:
    """A source entry of the same length, in which the text of others' files is blank, and their code zero."""
    library = any(_LIBRARY.search(name) for name in _at(source, _FUNCTION_NAME))

    def of_file(field: Field) -> Field:
        number, kind, value = field
        if number != _FILE or not isinstance(value, bytes):
            return field
        inner = ncu_wire.dict_of(value)
        name, text = inner.get(_FILE_NAME, b""), inner.get(_FILE_TEXT, b"")
        if not (isinstance(name, bytes) and isinstance(text, bytes)):
            return field
        if not (_FOREIGN_FOLDER.search(name) or _FOREIGN_TEXT.search(text[:_NOTICE_BYTES])):
            return field
        return number, kind, _rewritten(value, blank)

    def blank(field: Field) -> Field:
        number, kind, value = field
        if number == _FILE_TEXT and isinstance(value, bytes):
            return number, kind, re.sub(rb"[^\n]", b" ", value)
        return field

    def of_source(field: Field) -> Field:
        number, kind, value = field
        if number == _FILES and isinstance(value, bytes):
            return number, kind, _rewritten(value, of_file)
        if number == _MODULE and library and isinstance(value, bytes):
            return number, kind, bytes(len(value))
        return field

    return _rewritten(source, of_source)


def _without_folders(entry: bytes, folders: list[bytes]) -> bytes:
    for folder in folders:
        entry = re.sub(re.escape(folder) + rb"(?![\w.\-])", _dots, entry)
    return _FOLDER.sub(_dots, entry)


def _masked(entry: bytes, names: Names) -> bytes:
    """An entry of the same length, in whose texts what is private is overwritten."""
    for leaf in set(ncu_wire.leaves(entry, set())):
        if ncu_wire.is_text(leaf):
            clean = privacy.mask(leaf.decode(), names).encode()
            if clean != leaf:
                size = ncu_wire.put_varint(len(leaf))
                entry = entry.replace(size + leaf, size + clean)
    return entry


def _dots(match: re.Match[bytes]) -> bytes:
    """As many characters that mean “here”: ././. or .//"""
    text = match.group()
    size = len(text)
    dots = (b"./" * (size // 2 + 1))[:size]
    return dots[:-1] + b"/" if text.endswith(b"/") else dots


def _header_field(field: Field, numbers: dict[int, int]) -> Field:
    number, kind, value = field
    if isinstance(value, bytes) and number == ncu_wire.SESSION:
        return number, kind, _rewritten(value, _session_field)
    if isinstance(value, bytes) and number == ncu_wire.PROCESS:
        inner = _rewritten(value, lambda one: _numbered(one, numbers))
        return number, kind, _rewritten(inner, _process_field)
    return field


def _session_field(field: Field) -> Field | None:
    number, kind, value = field
    if number == _SESSION_TIME and isinstance(value, int):
        return number, kind, value // _DAY_S * _DAY_S
    if not isinstance(value, bytes):
        return field
    if number == ncu_wire.SYSTEM:
        return number, kind, _rewritten(value, _system_field)
    if number == 3:  # the same inside the session's start
        return number, kind, _rewritten(value, _system_field)
    if number in (ncu_wire.DEVICE, ncu_wire.CLIENT):
        return field
    if number == ncu_wire.COMMAND:
        words = value.decode(errors="replace").split(" ")
        return number, kind, " ".join(w.rpartition("/")[2] if "/" in w else w for w in words).encode()
    return number, kind, b""


def _system_field(field: Field) -> Field | None:
    return field if field[0] in _KEPT_SYSTEM else None


def _process_field(field: Field) -> Field | None:
    number, kind, value = field
    if number == 2:
        return number, kind, b""
    if number == 3 and isinstance(value, bytes):
        return number, kind, value.rpartition(b"/")[2]
    return field


def _rewritten(message: bytes, change: Callable[[Field], Field | None]) -> bytes:
    changed = (change(field) for field in ncu_wire.fields(message))
    return b"".join(ncu_wire.put_field(*field) for field in changed if field is not None)
