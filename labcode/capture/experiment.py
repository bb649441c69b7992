"""What an experiment is: a folder of `labcode.experiments` in, the records of the catalogue out."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from labcode.capture.script import OPTIONS
from labcode.store import repository_root
from labcode.workloads import NAMES

Tool = Literal["nsys", "ncu", "torch", "memory", "power", "bench", "doctor"]
# The clocks are left as they are: locking them takes rights, and another user's work may run beside.
NCU_ALWAYS = ("--clock-control", "none", "--target-processes", "all")
GPUS = "{gpus}"  # stands for the number of GPUs a run uses, known when it runs
PROGRAMS = "labcode.workloads"
_BY_PART = ("energy", "scaling")  # parts whose programs are called PART.NAME: names alone say too little
CUDA = f"{PROGRAMS}.cuda"
_TEXTS = {"sources", "needs", "nsys_args", "ncu_args", "torch_args", "times"}
FOLDER = "labcode/experiments"
_PAIR = ("fault", "mended")
_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")


@dataclass(frozen=True)
class Run:
    """One run of an experiment: its name, the program's arguments, further options of the profiler.

    ``clean``: whether the program is also run without the profiler; not where nothing asks what that says.
    """

    name: str
    args: tuple[str, ...] = ()
    tool_args: tuple[str, ...] = ()
    clean: bool = True


@dataclass(frozen=True)
class Experiment:
    """What is captured together, back to back on one machine.

    ``module`` is run as ``python -m module ARGS``, a CUDA program as ``python -m labcode.workloads.cuda
    PROGRAM ARGS``; ``sources`` are paths and globs relative to the repository whose change makes the
    capture stale, beyond those that follow from the files ``made_of`` (see `labcode.capture.sources`);
    ``needs`` are tools and packages beyond the GPUs (``nvcc``, ``torch``); an experiment of the tool
    ``power`` that needs ``nsys`` runs under it, too; ``time_limit_s`` bounds each single run.
    """

    id: str
    title: str
    tool: Tool
    module: str
    runs: tuple[Run, ...]
    sources: tuple[str, ...] = ()
    needs_gpus: int = 1
    time_limit_s: float = 300.0
    nsys_args: tuple[str, ...] = ("--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none")
    needs: tuple[str, ...] = ()
    ncu_args: tuple[str, ...] = ("--set", "full", "--import-source", "yes")  # and -k: name the kernels
    program: str = ""
    times: tuple[str, ...] = ()  # the lab's own code that it times: a change of it makes nothing stale
    torch_args: tuple[str, ...] = ()  # of `labcode.capture.torch_profile`: --shapes, --stacks, --steps=N …
    needs_gb: int = 0  # memory of one GPU, 10⁹ bytes: what the runs reserve, and 2 for CUDA itself
    scripts: bool = False  # ``module`` is a folder of plain scripts; a run CASE-NAME is CASE/NAME.py in it
    folder: str = ""  # PART/NAME below `labcode.experiments`
    made_of: tuple[str, ...] = ()  # files relative to the repository; what they import follows
    host_bound: bool = False  # what it shows depends on the CPU: nothing else runs while it does

    def argv(self, run: Run) -> tuple[str, ...]:
        """The command of a run in neutral words, free of any machine's paths."""
        if self.scripts:
            ranks = ("torchrun", "--standalone", f"--nproc-per-node={self.needs_gpus}")
            return (
                *(ranks if self.needs_gpus > 1 else ("python",)),
                f"{self.module}/{run.name.replace('-', '/')}.py",
            )
        return ("python", "-m", self.module, *([self.program] if self.program else []), *run.args)

    def options(self, run: Run) -> tuple[str, ...]:
        """All options that the recording tool of a run gets."""
        if self.scripts:
            return OPTIONS
        own: dict[Tool, tuple[str, ...]] = {
            "nsys": self.nsys_args,
            "ncu": (*NCU_ALWAYS, *self.ncu_args),
            "torch": self.torch_args,
            "memory": self.torch_args,
            "power": self.nsys_args if "nsys" in self.needs else (),
        }
        return (*own[self.tool], *run.tool_args) if self.tool in own else ()


def folders(root: Path | None = None) -> list[str]:
    """The folders that describe an experiment, as PART/NAME, in order."""
    place = (root or repository_root()) / FOLDER
    return sorted(path.parent.relative_to(place).as_posix() for path in place.glob("*/*/experiment.toml"))


def read(folder: str, root: Path | None = None) -> dict[str, Experiment]:
    """What is captured of the experiment in ``folder`` (PART/NAME), by id, in the order of its description.

    A text of ``experiment.toml`` is words with spaces between: ``$name`` stands for the words that are
    called so (under ``words``, or in words.toml of the part), ``{a,b}`` in a word for each in turn. What
    runs is ``program.py``, by its name below `labcode.workloads` (of `NAMES`, else PART.NAME where the part
    is energy or scaling, NAME where it is another), or where there is only a ``cuda.py``, the program of the
    folder's name in ``cuda/``; ``module`` and ``program`` name another one.
    ``made_of`` names the modules of the folder that the runs are made of, where it is not all that the
    program imports. A run is of the ``variant`` of its own name, or of another one ('': of none), and
    takes ``args``; the profiler takes ``options`` and, of ncu, the names of ``kernels`` without namespace
    and template arguments. Runs of plain scripts are named by ``cases``, each with a fault and mended,
    and ``good`` ones.
    """
    place = (root or repository_root()) / FOLDER / folder
    table = _table(place / "experiment.toml")
    common = place.parent / "words.toml"
    words = {**(_table(common) if common.is_file() else {}), **table.pop("words", {})}

    def spelled(text: str) -> Iterator[str]:
        for word in text.split():
            yield from spelled(words[word[1:]]) if word.startswith("$") else _each(word)

    def run(
        name: str,
        variant: str | None = None,
        args: str = "",
        options: str = "",
        kernels: str = "",
        **more: bool,
    ) -> Run:
        variant = name if variant is None else variant
        named = ("-k", f"regex:^({'|'.join(spelled(kernels))})$") if kernels else ()
        own = ("--variant", variant) if variant else ()
        return Run(name, (*own, *spelled(args)), (*spelled(options), *named), **more)

    found = {}
    for name, entry in table.items():
        texts = {key: tuple(spelled(entry[key])) for key in _TEXTS & entry.keys()}
        made_of = tuple(f"{FOLDER}/{folder}/{module}.py" for module in entry.pop("made_of", "").split())
        if entry.get("scripts"):
            pairs = (f"{case}-{script}" for case in spelled(entry.pop("cases")) for script in _PAIR)
            names = [*pairs, *(f"{case}-good" for case in spelled(entry.pop("good")))]
            runs = tuple(Run(of) for of in sorted(names))
            texts["sources"] = tuple(f"{entry['module']}/{run.name.replace('-', '/')}.py" for run in runs)
        else:
            runs = tuple(run(of, **told) for of, told in entry.pop("runs").items())
            entry, made_of = _program(place, entry, made_of)
        found[name] = Experiment(
            **{**entry, **texts, "id": name, "runs": runs, "folder": folder, "made_of": made_of}
        )
    return found


def _program(
    place: Path, entry: dict[str, Any], made_of: tuple[str, ...]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What an entry runs, filled in from the files of its folder, and what that is made of."""
    folder = f"{FOLDER}/{place.parent.name}/{place.name}"
    own = (place / "program.py").is_file()
    program = entry.get("program", "" if own or "module" in entry else place.name)
    if program:
        return {**entry, "module": CUDA, "program": program}, (f"cuda/{program}/{program}.cu",)
    made_of = made_of or ((f"{folder}/program.py",) if own else ())
    part, name = place.parent.name, place.name
    older = {module: called for called, module in NAMES.items()}
    called = older.get(f"{part}.{name}.program", f"{part}.{name}" if part in _BY_PART else name)
    return {"module": f"{PROGRAMS}.{called.removesuffix('.__main__')}", **entry}, made_of


def _table(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _each(word: str) -> list[str]:
    """A word, or with {a,b} in it each of the words that it stands for."""
    choice = _CHOICE.search(word)
    if choice is None:
        return [word]
    head, tail = word[: choice.start()], word[choice.end() :]
    return [made for one in choice[1].split(",") for made in _each(head + one + tail)]
