"""Nothing private is in what ships, by a scanner that shares no line with the one that scrubs.

It knows of formats only how they are packed: it unpacks, and looks at bytes, as they are and as UTF-16.
"""

import bz2
import getpass
import gzip
import io
import lzma
import re
import socket
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAME = rb"[A-Za-z0-9_][A-Za-z0-9_.+-]{1,60}"
HEX = rb"[0-9A-Fa-f]{2}"


def alone(literal: bytes, rest: bytes) -> bytes:
    """Where no word character stands before it. With the literal first it is found ten times as fast."""
    return literal + rb"(?<!\w" + literal + rb")" + rest


def set_to(names: tuple[str, ...], value: bytes) -> bytes:
    """Variables of the environment with a value."""
    return b"=(?:" + b"|".join(b"(?<=" + name.encode() + b"=)" for name in names) + b")" + value


SECRETS = (  # nowhere, not even in an example
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    alone(rb"AKIA", rb"[A-Z0-9]{16}\b"),
    alone(rb"ASIA", rb"[A-Z0-9]{16}\b"),
    alone(rb"gh", rb"[pousr]_[A-Za-z0-9]{36}"),
    alone(rb"github_pat_", rb"\w{30}"),
    alone(rb"glpat-", rb"[\w-]{20}"),
    alone(rb"hf_", rb"[A-Za-z]{30}"),
    alone(rb"sk-", rb"[A-Za-z0-9_-]{32}"),
    alone(rb"xox", rb"[abp]-[\w-]{20}"),
    alone(rb"ey", rb"[JK][\w-]{20,}\.ey[JK][\w-]{20,}\."),
    alone(rb"AIza", rb"[\w-]{35}"),
)
PERSONAL = (  # in nothing that was recorded
    rb"/(?:home|Users|export/home|data/home|people|root|scratch|lustre|gpfs|mnt|media|nfs|srv|workspace|private"
    rb"|var/folders)/" + NAME,
    rb":\\{1,4}Users\\{1,4}" + NAME,
    rb"@[A-Za-z0-9-]{2,40}(?:\.[A-Za-z0-9-]{2,40})?\."
    rb"(?:com|org|net|edu|gov|ac|io|ai|de|cn|fr|uk|local|internal|lan|corp)\b",
    alone(rb"10\.", rb"\d{1,3}\.\d{1,3}\.\d{1,3}\b(?!\.\d)"),
    alone(rb"192\.168", rb"\.\d{1,3}\.\d{1,3}\b(?!\.\d)"),
    alone(rb"172\.", rb"(?:1[6-9]|2\d|3[01])\.\d{1,3}\.\d{1,3}\b(?!\.\d)"),
    alone(rb"ip-", rb"\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}\b"),
    rb"\.(?:ec2\.internal|compute\.internal|compute\.amazonaws\.com|svc\.cluster\.local|localdomain)\b",
    b":" + HEX + b":(?:" + HEX + b":){3}" + HEX + rb"\b(?<=\b" + HEX + (b":" + HEX) * 5 + b")",
    b":" + HEX + rb":[01][0-9A-Fa-f]\.[0-7]\b(?<=\b[0-9A-Fa-f]{4}:" + HEX + rb":[01][0-9A-Fa-f]\.[0-7])",
    b":" + HEX + rb":[01][0-9A-Fa-f]\.[0-7]\b(?<=\b[0-9A-Fa-f]{8}:" + HEX + rb":[01][0-9A-Fa-f]\.[0-7])",
    rb"GPU-[0-9a-f]{8}-[0-9a-f]{4}-",
    rb"MIG-[0-9a-f]{8}-[0-9a-f]{4}-",
    set_to(
        (
            *("SSH_CONNECTION", "SSH_CLIENT", "SSH_AUTH_SOCK", "SUDO_USER", "AWS_SECRET_ACCESS_KEY"),
            *("WANDB_API_KEY", "HF_TOKEN", "KUBERNETES_SERVICE_HOST", "SLURM_JOB_USER", "SLURM_SUBMIT_HOST"),
        ),
        b"",
    ),
    set_to(("LOGNAME", "USERNAME", "HOSTNAME", "OLDPWD"), NAME),
)
RECORDED = ("captures/", "tests/golden/", "book/_static/")
ALLOWED = re.compile(  # words of the formats themselves, or of the vendor's own builds
    rb"/(?:home|root|mnt|data)/(?:\[|removed)|@(?:example|x)\.(?:com|org)|/build/agent|GPU-[0x]{8}-"
)
KINDS = {
    kind: [re.compile(pattern) for pattern in patterns]
    for kind, patterns in (("secret", SECRETS), ("personal", PERSONAL))
}


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("no checkout of git")
    return [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def unpacked(data: bytes, depth: int = 0) -> Iterator[bytes]:
    """The bytes themselves, and what is packed in them."""
    yield data
    if depth > 3:
        return
    inner: list[bytes] = []
    try:
        if data.startswith(b"\xfd7zXZ\0"):
            inner = [lzma.decompress(data)]
        elif data.startswith(b"\x1f\x8b"):
            inner = [gzip.decompress(data)]
        elif data.startswith(b"BZh"):
            inner = [bz2.decompress(data)]
        elif data.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(io.BytesIO(data)) as packed:
                inner = [packed.read(name) for name in packed.namelist()]
        elif data[257:262] == b"ustar":
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                files = (tar.extractfile(member) for member in tar if member.isfile())
                inner = [file.read() for file in files if file is not None]
        elif data.startswith(b"\x89PNG"):
            inner = list(_texts_of_png(data))
    except (OSError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, tarfile.TarError):
        return
    for one in inner:
        yield from unpacked(one, depth + 1)


def _texts_of_png(data: bytes) -> Iterator[bytes]:
    at = 8
    while at + 8 <= len(data):
        size, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        if kind in (b"tEXt", b"iTXt", b"eXIf"):
            yield data[at + 8 : at + 8 + size]
        elif kind == b"zTXt":
            text = data[at + 8 : at + 8 + size]
            yield zlib.decompress(text[text.index(b"\0") + 2 :])
        at += 12 + size


def own_names() -> tuple[bytes, ...]:
    """How this machine and whoever sits here are called, where that is no word that anybody might use."""
    common = {"root", "user", "runner", "ubuntu", "localhost", "vscode", "build", "runneradmin"}
    found = {getpass.getuser(), socket.gethostname().partition(".")[0], Path.home().name}
    return tuple(name.encode() for name in found if name not in common and len(name) > 5)


def private_in(
    data: bytes, kinds: tuple[str, ...] = ("secret", "personal"), names: tuple[bytes, ...] = ()
) -> list[bytes]:
    """What is private in some bytes, read as they are and as UTF-16."""
    found: list[bytes] = []
    for whole in unpacked(data):
        texts = [whole]
        if whole.count(b"\0", 0, 1 << 16) > 100:
            texts.append(whole.translate(None, b"\0"))
        for text in texts:
            for pattern in (pattern for kind in kinds for pattern in KINDS[kind]):
                found += [hit[0] for hit in pattern.finditer(text) if not ALLOWED.search(hit[0])]
            found += [name for name in names if name in text]
    return found


def test_the_scanner_finds_what_is_planted() -> None:
    planted = (
        b"/home/mallory/run.py",
        b"C:\\Users\\mallory",
        b"mallory@lab.example.edu",
        b"10.11.12.13",
        b"ip-10-0-0-7",
        b"node7.svc.cluster.local",
        b"de:ad:be:ef:00:01",
        b"0000:1b:00.0",
        b"GPU at 00000000:1B:00.0, 9",
        b"GPU-1a2b3c4d-0000-",
        b"HOSTNAME=node7",
        b"AKIA" + b"A" * 16,
        b"-----BEGIN OPENSSH PRIVATE " + b"KEY-----",
        b"ghp_" + b"a" * 36,
    )
    for text in planted:
        for put in (
            text,
            lzma.compress(b"x" * 99 + b" " + text),
            gzip.compress(gzip.compress(b"\n" + text + b"\n")),
        ):
            assert private_in(put), text
        assert private_in(b"\0" * 200 + text.decode().encode("utf-16-le")), text
    for harmless in (
        b"libcublas.so.12.9.1.4 13.0.88",
        b"/usr/lib/libc.so",
        b"operator@GLIBC_2.17",
        b"home page/x",
        b"at 2026-01-02 10:00:10:15.5",
    ):
        assert private_in(harmless) == []


def test_nothing_private_ships() -> None:
    names, found = own_names(), {}
    for file in tracked():
        if file == "tests/hostile/test_privacy.py":
            continue
        kinds = ("secret", "personal") if file.startswith(RECORDED) else ("secret",)
        recorded = names if file.startswith(RECORDED) else ()
        if hits := private_in((ROOT / file).read_bytes(), kinds, recorded):
            found[file] = hits[:5]
    assert found == {}
