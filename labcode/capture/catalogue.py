"""The experiments of the book: an id in, the program, its runs, the profiler's options, the sources out."""

from rich.console import Console
from rich.padding import Padding

from labcode import store
from labcode.capture import schedule
from labcode.capture.experiment import GPUS, Experiment, Run, folders, read
from labcode.errors import LabError
from labcode.freshness import is_fresh
from labcode.show import period

MOST_GPUS = 4
EXPERIMENTS: dict[str, Experiment] = {name: one for folder in folders() for name, one in read(folder).items()}


def choose(names: list[str]) -> list[Experiment]:
    """The named experiments in the catalogue's order, or all; `LabError` for an unknown name."""
    unknown = sorted(set(names) - set(EXPERIMENTS))
    if unknown:
        raise LabError(f"{', '.join(unknown)}: no such experiment (there are: {', '.join(EXPERIMENTS)})")
    return [e for e in EXPERIMENTS.values() if not names or e.id in names]


def neutral_argv(experiment: Experiment, run: Run, gpu_count: int) -> tuple[str, ...]:
    """The command of a run as manifests have it: ``python -m module …``, free of any machine's paths."""
    gpus = str(max(1, min(MOST_GPUS, gpu_count)))
    return tuple(gpus if word == GPUS else word for word in experiment.argv(run))


def needs_of(experiment: Experiment) -> tuple[str, ...]:
    """What an experiment needs from a machine, in the words of `labcode.hardware.needs`."""
    gpus = "gpu" if experiment.needs_gpus == 1 else f"{experiment.needs_gpus} gpus"
    return (
        *((gpus,) if experiment.needs_gpus else ()),
        *((f"{experiment.needs_gb} GB",) if experiment.needs_gb else ()),
        *(("nsys",) if experiment.tool == "nsys" else ()),
        *(("ncu", "counters") if experiment.tool == "ncu" else ()),
        *experiment.needs,
    )


def render(console: Console, set_name: str | None = None) -> None:
    """List the experiments with how long they took on the shipped set, the most important first.

    With a set's name also which of them it holds, whether they are fresh, and how long the others will take.
    """
    captured = store.load_set(set_name).experiments if set_name in store.list_sets() else {}
    pace = schedule.Pace.of_set({name: record.wall_s for name, record in captured.items()})
    ordered = schedule.in_order(EXPERIMENTS.values(), pace.took)
    lacking = []
    for experiment in ordered:
        state = ""
        if set_name:
            record = captured.get(experiment.id)
            state = "not captured in this set" if record is None else "fresh" if is_fresh(record) else "stale"
            if state != "fresh":
                lacking.append(experiment)
            state = f"  ({set_name}: {state})"
        console.print(f"[bold]{experiment.id}[/bold]{state}", highlight=False)
        facts: tuple[str, ...] = (
            experiment.title,
            f"runs: {', '.join(run.name for run in experiment.runs)}",
            f"needs: {', '.join(needs_of(experiment)) or 'nothing'}",
        )
        if experiment.id in pace.took:
            facts += (f"took {period(pace.took[experiment.id])} on {store.SHIPPED_SET}",)
        for fact in facts:
            console.print(Padding(fact, (0, 0, 0, 2)), highlight=False)
    single = [experiment for experiment in ordered if experiment.needs_gpus <= 1]
    said = [
        f"{len(EXPERIMENTS)} experiments take {period(pace.expect_all(ordered))}",
        f"the {len(single)} that need no second GPU {period(pace.expect_all(single))}",
    ]
    if set_name:
        said.append(f"the {len(lacking)} that {set_name} lacks {period(pace.expect_all(lacking))}")
    if pace.took:
        console.print(f"At the pace of {set_name or store.SHIPPED_SET} {', '.join(said)}", highlight=False)
