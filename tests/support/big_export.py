"""Writes a large made-up nsys export: see `labcode.workloads.models.big_export`.

python -m tests.support.big_export big.sqlite --ops 1000000 --mix dense
"""

from __future__ import annotations

import argparse
from pathlib import Path

from labcode.workloads.models.big_export import MIXES, make_big_export

__all__ = ["make_big_export"]


def main() -> None:
    """Write the file named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--ops", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mix", choices=MIXES, default=MIXES[0])
    options = vars(parser.parse_args())
    make_big_export(options.pop("path"), **options)


if __name__ == "__main__":
    main()
