"""Which GPUs a process sees: the text of CUDA_VISIBLE_DEVICES and the UUIDs that are here in, indices out."""

from collections.abc import Sequence

from labcode.errors import LabError

VARIABLE = "CUDA_VISIBLE_DEVICES"


def visible(text: str | None, uuids: Sequence[str]) -> list[int]:
    """Indices into ``uuids``, in the order in which CUDA numbers the GPUs.

    ``text`` is read as CUDA reads it: None is every GPU, indices or UUIDs (whole or as far as they are
    unique, ``GPU-5ebe``) are separated by commas, and the list ends before the first that is none. `LabError`
    for a MIG device and where no GPU is left. (CUDA C++ Programming Guide, "CUDA Environment Variables".)
    """
    if text is None:
        return list(range(len(uuids)))
    found: list[int] = []
    for word in (part.strip() for part in text.split(",")):
        if word.upper().startswith("MIG"):
            raise LabError(
                f"{VARIABLE}={text}: names a MIG device; NVML meters whole GPUs, so its energy cannot be "
                "told from that of its neighbors: use a GPU without MIG"
            )
        place = _index(word, uuids)
        if place is None:
            break
        if place in found:
            found = []  # as CUDA does: a GPU that is named twice leaves none
            break
        found.append(place)
    if not found:
        raise LabError(f"{VARIABLE}={text}: leaves no GPU to meter; unset it or name 0…{len(uuids) - 1}")
    return found


def _index(word: str, uuids: Sequence[str]) -> int | None:
    if word.isdecimal():
        return int(word) if int(word) < len(uuids) else None
    if not word.upper().startswith("GPU-"):
        return None
    fits = [place for place, uuid in enumerate(uuids) if uuid.lower().startswith(word.lower())]
    return fits[0] if len(fits) == 1 else None
