"""A copy of the lab for learners: a checkout in, one .tar with starters and without readable solutions out.

.. code-block:: text

    profiling-lab/exercises/    the starters, cut anew from the solutions
    profiling-lab/solutions/    each exercise's description; everything else is in sealed.txt
    profiling-lab/…             every other file that git tracks, except tests, which know answers, too

It has no history either. `labcode.grading.sealed` says what the seal is worth.
"""

import io
import tarfile
from pathlib import Path

from labcode.errors import LabError
from labcode.grading import catalogue, generate, sealed
from labcode.kit.gather import neutral, tracked
from labcode.outputs import whole
from labcode.store import repository_root

TOP = "profiling-lab"
_LEFT_OUT = frozenset((".ci", ".github", "exercises", "solutions", "tests"))
_AUTHORS = "solutions/README.md"


def members() -> dict[str, Path | bytes]:
    """What the copy holds: names below its folder, and files or contents.

    `LabError` away from a checkout, and in a copy that was handed out itself.
    """
    root = repository_root()
    if not catalogue.EXERCISES:
        raise LabError(f"{root}: no exercises here; run this in a checkout of the lab, or set LABCODE_HOME")
    if sealed.is_sealed(root):
        raise LabError(f"{root}: this copy was handed out itself; make others where it was made")
    files = {path.relative_to(root).as_posix(): path for path in tracked(root)}
    own = {name: path for name, path in files.items() if name.startswith("solutions/") and name != _AUTHORS}
    made: dict[str, Path | bytes] = {
        name: path
        for name, path in files.items()
        if name.split("/")[0] not in _LEFT_OUT or name.endswith(("/exercise.toml", "exercises/README.md"))
    }
    for exercise in catalogue.EXERCISES:
        for part in exercise.parts:
            text = generate.starter_of(root / "solutions", exercise, part)
            made[f"exercises/{exercise.path(part)}"] = text.encode()
    seal = sealed.seal({name.removeprefix("solutions/"): path for name, path in own.items()})
    return made | {f"solutions/{sealed.SEALED}": seal}


def write(output: Path) -> str:
    """Write the copy, whole or not at all; one line that says so.

    Of one state of the checkout it is the same, byte for byte: ``SOURCE_DATE_EPOCH`` is its date.
    """
    if output.suffix != ".tar":
        raise LabError(f"{output}: the copy's name must end in .tar")
    with whole(output) as made, tarfile.open(made, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in sorted(members().items()):
            info = tarfile.TarInfo(f"{TOP}/{name}")
            if isinstance(content, Path):
                tar.add(content, info.name, filter=neutral)
            else:
                info.size = len(content)
                tar.addfile(neutral(info), io.BytesIO(content))
    size = output.stat().st_size / 1e6
    return f"{output}: {size:,.1f} MB, {len(catalogue.EXERCISES)} exercises, their solutions sealed"
