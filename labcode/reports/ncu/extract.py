"""A program of its own: ``python extract.py REPORT.ncu-rep OUT.json`` writes a report's content as JSON.

It calls NVIDIA's package ``ncu-report``, whose native part can crash on a damaged report; a crash then ends
only this process. Every number is written exactly as the package returns it.
"""

import importlib.util
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EXTRACT_FORMAT = 4
INSTRUCTION_BYTES = 16
_MOST_INSTRUCTIONS = 200_000
_LABEL = re.compile(r"`\([^)]*\) ?")  # in "BRA `(.L_x_0) 0x7f00": ncu prints no label
_SAMPLED_OVER_TIME = (".Triage", "pmsampling:", "profiler__timestamp", "profiler__pmsampler_ctxsw")


@contextmanager
def findable() -> Iterator[None]:
    """Inside of the block NVIDIA's package is imported by a path in ASCII.

    Where it lies in a folder of another name (``Größe``), it finds no table of metrics and leaves nearly all
    units empty, without a word.
    """
    found = importlib.util.find_spec("ncu_report")
    place = Path(found.origin).parents[1] if found is not None and found.origin else Path()
    if str(place).isascii():
        yield
        return
    with tempfile.TemporaryDirectory(prefix="labcode-ncu-") as folder:
        link = Path(folder, "packages")
        link.symlink_to(place, target_is_directory=True)
        sys.path.insert(0, str(link))
        yield


def extract(path: str) -> dict[str, Any]:
    """Everything the lab reads of a report, as a JSON object."""
    import ncu_report

    context = ncu_report.load_report(path)
    actions = [
        block.action_by_idx(number)
        for block in (context.range_by_idx(place) for place in range(context.num_ranges()))
        for number in range(block.num_actions())
    ]
    files: dict[str, str] = {}
    known: dict[tuple[str, int], dict[str, Any]] = {}
    return {
        "format": EXTRACT_FORMAT,
        "library": str(context.get_version()),
        "launches": [_launch(action, files, known) for action in actions],
        "files": files,
    }


def _launch(
    action: Any, files: dict[str, str], known: dict[tuple[str, int], dict[str, Any]]
) -> dict[str, Any]:
    metrics: dict[str, list[Any]] = {}
    instances: dict[str, list[list[Any]]] = {}
    for name in action.metric_names():
        metric = action.metric_by_name(name)
        if metric is None or name.startswith(("breakdown:", "group:")):
            continue
        metrics[name] = [metric.value() if metric.has_value() else None, metric.unit(), metric.label()]
        count = metric.num_instances()
        if not count or any(mark in name for mark in _SAMPLED_OVER_TIME):
            continue
        keys = metric.correlation_ids() if metric.has_correlation_ids() else None
        instances[name] = [
            [keys.value(place) for place in range(count)] if keys is not None else [],
            [metric.value(place) for place in range(count)],
        ]
    bases = action.metric_by_name("launch__function_pcs")
    start = int(bases.value(0)) if bases is not None and bases.num_instances() else 0
    code = (action.name(action.NameBase_MANGLED), start)
    if code not in known:
        known[code] = _code(action, start)
    for name, content in dict(action.source_files()).items():
        files.setdefault(str(name), str(content))
    return {
        "function": action.name(action.NameBase_FUNCTION),
        "demangled": action.name(action.NameBase_DEMANGLED),
        "mangled": action.name(action.NameBase_MANGLED),
        "kind": int(action.workload_type()),
        "metrics": metrics,
        "instances": instances,
        "sections": [_section(section) for section in action.sections()],
        "rules": action.rule_results_as_dicts(),
        "code": known[code],
    }


def _section(section: Any) -> dict[str, Any]:
    return {
        "id": section.identifier(),
        "name": section.name(),
        "order": section.order(),
        "header": [[metric.name(), metric.label(), metric.unit()] for metric in section.header_metrics()],
        "body": [metric.name() for metric in section.body_metrics()],
        "rules": [str(rule) for rule in section.rules()],
    }


def _code(action: Any, start: int) -> dict[str, Any]:
    """The SASS of a kernel from its first address on, with each instruction's PTX and source line."""
    rows: dict[str, list[Any]] = {"address": [], "sass": [], "ptx": [], "file": [], "line": []}
    for place in range(_MOST_INSTRUCTIONS if start else 0):
        address = start + place * INSTRUCTION_BYTES
        sass = action.sass_by_pc(address)
        if not sass:
            break
        where = action.source_info(address)
        rows["address"].append(address)
        rows["sass"].append(_LABEL.sub("", sass.strip()))
        rows["ptx"].append((action.ptx_by_pc(address) or "").strip())
        rows["file"].append(str(where.file_name()) if where is not None else "")
        rows["line"].append(int(where.line()) if where is not None else 0)
    return rows


def main(arguments: list[str]) -> int:
    """Write the extract of the report ``arguments[0]`` to ``arguments[1]``."""
    with findable():
        content = json.dumps(extract(arguments[0]), ensure_ascii=False, separators=(",", ":"))
    Path(arguments[1]).write_text(content, encoding="utf-8", errors="replace")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
