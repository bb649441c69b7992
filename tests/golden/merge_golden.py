"""Golden files brought up to date: those of a set and newer ones of some of its exports in, one tar out.

    python tests/golden/merge_golden.py tests/golden/h200.tar.xz newer.tar.xz

Both are as make_golden.py writes them. Every export of the newer tar replaces that of the set whole; exports
that the set no longer has are dropped when their names are given after ``--drop``.
"""

import argparse
import io
import json
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from labcode.capture.archive import neutral
from labcode.errors import LabError
from tests.golden.golden import Golden, load_golden


def merge(old: Golden, new: Golden, drop: Iterable[str] = ()) -> Golden:
    """The golden files of both, the new ones winning export by export."""
    if old.versions.get("nsys") != new.versions.get("nsys"):
        raise LabError(
            f"the golden files are of nsys {old.versions.get('nsys')} and {new.versions.get('nsys')}; "
            "ask one nsys about all exports"
        )
    gone = {*new.versions, *drop} - {"nsys"}
    files = {name: text for name, text in old.files.items() if ".".join(name.split(".")[:-2]) not in gone}
    versions = {name: about for name, about in old.versions.items() if name not in gone}
    return Golden(files | new.files, versions | new.versions)


def write(golden: Golden, path: Path) -> None:
    """Write golden files the same way every time: by name, without times and owners."""
    about = {name: golden.versions[name] for name in sorted(golden.versions, key=lambda n: (n != "nsys", n))}
    files = {**golden.files, "versions.json": json.dumps(about, indent=1) + "\n"}
    with tarfile.open(path, "w:xz", preset=9) as tar:
        for name in sorted(files, key=lambda n: (n == "versions.json", n)):
            data = files[name].encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(neutral(member), io.BytesIO(data))


def main(arguments: list[str]) -> int:
    """Merge two tars into the first; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--drop", nargs="*", default=[], metavar="EXPERIMENT/RUN")
    options = parser.parse_args(arguments)
    loaded = []
    for path in (options.old, options.new):
        name = path.name.removesuffix(".tar.xz")
        found = load_golden(name, path.parent) if path.name == f"{name}.tar.xz" else None
        if found is None:
            raise LabError(f"{path}: no golden files (a .tar.xz); make them with make_golden.py")
        loaded.append(found)
    write(merge(loaded[0], loaded[1], options.drop), options.old)
    print(f"{options.old}: {options.old.stat().st_size / (1 << 20):.2f} MiB")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LabError as error:
        print(f"merge_golden: {error}", file=sys.stderr)
        sys.exit(2)
