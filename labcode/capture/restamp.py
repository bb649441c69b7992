"""Write into a set where the sources of its captures lie today: a set's name in, a line an experiment out.

Only captures that are fresh are touched: after sources moved, their manifest names them where they are now.
"""

from __future__ import annotations

from collections.abc import Iterator

from labcode import store
from labcode.capture import catalogue
from labcode.capture.filing import MANIFEST, open_set, write_json
from labcode.freshness import is_fresh, source_digests


def restamp(set_name: str) -> Iterator[str]:
    """Check every capture of a set by the digests it has and name its sources anew; say what was done.

    Raises `InputError` when the set is missing or its manifest is damaged.
    """
    captures = store.load_set(set_name)
    with open_set(captures.path) as manifest:
        for name, record in captures.experiments.items():
            experiment = catalogue.EXPERIMENTS.get(name)
            today = source_digests(experiment.sources, store.repository_root()) if experiment else {}
            if not is_fresh(record) or set(today.values()) != set(record.sources.values()):
                yield f"{name}: stale, left as it is"
            elif today != dict(record.sources):
                manifest["experiments"][name]["sources"] = today
                yield f"{name}: named anew"
        write_json(captures.path / MANIFEST, manifest)
