"""A snapshot of PyTorch's allocator as a pickle in; a memory history out, and nothing in it is run.

`torch.cuda.memory._dump_snapshot` writes dicts, lists, texts and numbers. Whatever else a pickle may hold
(names of functions to call) is refused before it is looked up.
"""

import io
import pickle
from pathlib import Path
from typing import Any, NoReturn

from labcode.errors import InputError
from labcode.experiments.shared import memory_history

SUFFIXES = (".pickle", ".pkl")
_UNREADABLE = (
    *(pickle.UnpicklingError, EOFError, AttributeError, LookupError, MemoryError, TypeError, ValueError),
    OverflowError,
)


class _Plain(pickle.Unpickler):
    """Reads what needs no code."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it would run {module}.{name}")


def history_of(path: Path, data: bytes) -> dict[str, Any]:
    """What a pickled snapshot says, as `memory_history.convert` has it; of which PyTorch it does not say.

    Raises `InputError` for what is no pickle, would run something, or is no snapshot.
    """
    try:
        snapshot = _Plain(io.BytesIO(data)).load()
    except _UNREADABLE as error:
        why = f"cannot be read as a pickle of plain values ({error}); dump it again"
        raise InputError(f"{path}: {why}") from None
    try:
        return memory_history.convert(snapshot, "", _before(snapshot))
    except (AttributeError, LookupError, TypeError) as error:
        raise InputError(
            f"{path}: a pickle, but no snapshot of PyTorch's allocator ({type(error).__name__}: {error}); "
            "name one that torch.cuda.memory._dump_snapshot wrote"
        ) from None


def _before(snapshot: Any) -> list[dict[str, Any]]:
    """What was in use before the first event: blocks, freed or not, that no event allocated."""
    seen: dict[int, dict[str, Any] | None] = {}
    for entries in snapshot.get("device_traces", []):
        for entry in entries:
            if entry["action"] == "alloc":
                seen.setdefault(entry["addr"], None)
            elif entry["action"] in ("free", "free_requested"):
                kept = {key: entry[key] for key in ("addr", "size", "stream")}
                seen.setdefault(entry["addr"], {**kept, "frames": []})
    for block in memory_history.live_blocks(snapshot):
        seen.setdefault(block["addr"], block)
    return [block for block in seen.values() if block is not None]
