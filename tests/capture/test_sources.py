"""What an experiment is made of follows from its files: imports, headers, programs in CUDA; and no more."""

from pathlib import Path

import pytest

from labcode.capture import experiment
from labcode.capture.experiment import CUDA, Experiment
from labcode.capture.sources import sources_of
from labcode.errors import InputError

HOME = "labcode/experiments/nsys/loop"
FILES = {
    f"{HOME}/experiment.toml": '[words]\ntwice = "--steps 2"\n[loop]\ntitle = "A loop"\ntool = "nsys"\n'
    'runs.one = { args = "$twice $once" }\n[part]\ntitle = "A part"\ntool = "bench"\n'
    'made_of = "step"\nruns.all = {}\n',
    "labcode/experiments/nsys/words.toml": 'once = "--repetitions 1"\n',
    f"{HOME}/program.py": "from labcode.errors import LabError\n"
    "from labcode.experiments.nsys.loop import picture, step\n"
    "from labcode.experiments.nsys.tiles.cuda import program as tiles\n"
    "from labcode.experiments.shared import common\n"
    "common.synchronize(0)\n",
    f"{HOME}/step.py": "def run():\n    from labcode.kernels.topics.tile import KERNELS\n"
    "    from labcode.experiments.shared.common import nvtx_range, whole\n",
    f"{HOME}/picture.py": "from labcode.figures import bars\n",
    "labcode/experiments/nsys/tiles/experiment.toml": '[tiles]\ntitle = "T"\ntool = "bench"\nruns.all = {}\n',
    "labcode/experiments/nsys/tiles/cuda.py": 'program = CudaProgram("tiles", "tiles", (), {})\n',
    "labcode/experiments/shared/common.py": "",
    "labcode/kernels/topics/tile.py": "from labcode.kernels.catalogue import Kernel\nA = 'tiles/tiles.cuh'\n",
    "labcode/kernels/catalogue.py": "",
    "cuda/tiles/tiles.cu": '#include <cuda.h>\n#include "tiles.cuh"\n',
    "cuda/tiles/tiles.cuh": '#include "../common/check.cuh"\n',
    "cuda/common/check.cuh": "",
}
HEADERS = ("cuda/common/check.cuh", "cuda/tiles/tiles.cuh")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("lab")
    for name, text in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    return home


def test_a_program_is_made_of_what_it_imports(root: Path) -> None:
    found = experiment.read("nsys/loop", root)
    assert found["loop"].argv(found["loop"].runs[0])[2:] == (
        *("labcode.workloads.loop", "--variant", "one", "--steps", "2", "--repetitions", "1"),
    )
    common = "labcode/experiments/shared/common.py"
    step = (*HEADERS, f"{HOME}/step.py", f"{common}:nvtx_range", "labcode/kernels/topics/tile.py")
    assert sources_of(found["part"], root) == step
    more = (
        "cuda/tiles/tiles.cu",
        f"{HOME}/program.py",
        f"{common}:synchronize",
        "labcode/kernels/build.py:FLAGS",
    )
    assert sources_of(found["loop"], root) == tuple(sorted({*step, *more}))


def test_a_folder_without_a_program_runs_the_cuda_of_its_name(root: Path) -> None:
    found = experiment.read("nsys/tiles", root)["tiles"]
    assert (found.module, found.program) == (CUDA, "tiles")
    assert sources_of(found, root) == (
        *HEADERS[:1],
        "cuda/tiles/tiles.cu",
        *HEADERS[1:],
        "labcode/kernels/build.py:FLAGS",
    )


def test_what_no_import_shows_is_named_and_must_be_there(root: Path) -> None:
    one = Experiment("x", "X", "bench", "x", (), ("cuda/common/*.cuh",), made_of=(f"{HOME}/step.py",))
    assert "cuda/common/*.cuh" in sources_of(one, root)
    with pytest.raises(
        InputError, match=r"nothing\.py: no such source file; correct the experiment's sources"
    ):
        sources_of(
            Experiment("x", "X", "bench", "x", (), ("nothing.py",), made_of=(f"{HOME}/step.py",)), root
        )
