"""Small capture sets for tests: records of one experiment, filed as `labcode capture` files them."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from labcode import freshness
from tests.support.sets import MACHINE, make_set

SOURCE = "program.py"  # the program that was captured, beside the folder of sets


def write_set(
    root: Path,
    name: str,
    time_us: float,
    *,
    fresh: bool = True,
    warnings: tuple[str, ...] = (),
    more: Mapping[str, float] = MappingProxyType({}),
    skipped: Mapping[str, str] = MappingProxyType({}),
    trace: bool = False,
    results: Mapping[str, dict[str, Any]] = MappingProxyType({}),
) -> Path:
    """A set of one experiment ``measuring``, whose one run ``record`` took ``time_us``, and ``more`` like it,
    with a file ``record.sqlite.xz`` on demand; returns its folder. ``skipped`` are experiments that it lacks,
    ``results`` what the record of an experiment holds instead of a time.

    ``root`` is the folder of sets, and the folder above it the repository.
    """
    (root.parent / SOURCE).write_text("print('measured')\n", encoding="utf-8")
    sources = freshness.source_digests([SOURCE], root.parent) if fresh else {SOURCE: "another"}
    held = {}
    for experiment, time in {"measuring": time_us, **more, **dict.fromkeys(results, 1.0)}.items():
        found = results.get(experiment, {"time_us": time})
        record = {
            "program": experiment,
            "variant": "record",
            "parameters": {},
            "results": found,
            "checks": {},
        }
        contents = {"record.json": json.dumps(record).encode()}
        held[experiment] = {"record": contents | ({"record.sqlite.xz": b"a trace"} if trace else {})}
    about = {"gpus": [{"name": f"NVIDIA {name.upper()}"}], "gpu_count": 4, "nsys": "2025.3.1"}
    return make_set(
        root / name,
        held,
        machine={**MACHINE, **about},
        run={"warnings": list(warnings)},
        more={"skipped": dict(skipped)},
        title="One kernel, timed",
        captured="2026-11-21",
        sources=sources,
        wall_s=41.7,
    )
