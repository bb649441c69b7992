"""A function of Python in; whether it is the user's program's own, and not a library's or Python's, out.

Traces name functions `file(line): function`, with files below a folder of sys.path; nsys names whole paths,
or what is left of them where private folders were taken out.
"""

import functools
import re
import sys

import numpy as np
from numpy.typing import NDArray

from labcode.reports.columns import Bools
from labcode.reports.frames import codes_of

# packages that programs call; what they call back (``__getitem__`` of a data set) is the program's again
_PACKAGES = frozenset(
    (
        *("torch", "torchvision", "torchaudio", "triton", "numpy", "pandas", "scipy", "PIL", "cv2", "tqdm"),
        *("transformers", "accelerate", "datasets", "deepspeed", "lightning", "pytorch_lightning"),
        *("diffusers", "peft", "timm", "typing_extensions"),
    )
)
_EVERYWHERE = frozenset(("torch", "triton", "numpy"))  # also inside of a path: a checkout of the sources
_LIBRARY = sys.stdlib_module_names - {"test"}  # of Python; a folder of that name is somebody's own
# the lab's own programs are like others; they lay in `workloads` when most captures were made
_INSTALLED = re.compile(
    r"(?:^|/)(?:(?:site|dist)-packages|lib/python\d[^/]*|labcode/(?!(?:experiments|workloads)/).*)(?:/|$)"
)
_FRAME = re.compile(r"(?P<file>[^<>]*?)\((?P<line>\d+)\): (?P<function>.*)")


@functools.lru_cache(maxsize=65_536)
def own_file(file: str) -> bool:
    """Whether the functions of a file are the program's own: not of an installed package or of Python's
    library, not built in and not made from a text.
    """
    if not file or file[0] in "<[" or _INSTALLED.search(file):
        return False
    *folders, name = file.lstrip("/").split("/")
    if _EVERYWHERE.intersection(folders):
        return False
    # below a folder of sys.path, or cut down to that: the first part is a package's or a module's name
    first = folders[0] if folders else name.removesuffix(".py")
    return file[0] == "/" or (first not in _PACKAGES and first not in _LIBRARY)


def own_name(name: str) -> bool:
    """Whether a function is the program's own, as traces name it: `train.py(4): load`."""
    found = _FRAME.fullmatch(name)
    return found is not None and own_file(found["file"])


def own_names(names: NDArray[np.object_]) -> Bools:
    """Which of some functions are the program's own, as traces name them."""
    codes, distinct = codes_of(names)
    hits = np.array([own_name(str(name)) for name in distinct], np.bool_)
    return np.append(hits, False)[codes]
