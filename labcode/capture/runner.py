"""Capture experiments on this machine: their names in, files of a capture set (and an archive) out.

One experiment is measured at a time, or one per GPU where several GPUs are given. What was measured is
exported, scrubbed and compressed meanwhile, on other CPUs, except beside experiments whose measurements
depend on the host: nothing else goes on while those are measured. Who is measured beside whom,
`labcode.capture.schedule` says.
"""

import errno
import importlib.util
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from labcode import store
from labcode.capture import archive as archives
from labcode.capture import finishing, schedule, tools, verify
from labcode.capture.catalogue import choose, needs_of, neutral_argv
from labcode.capture.experiment import Experiment, Run
from labcode.capture.filing import (
    MANIFEST,
    Staged,
    check_name,
    file_experiments,
    files_record,
    open_set,
    packed,
    staging_folder,
    write_json,
)
from labcode.capture.job import Job, Measured, one_by_one
from labcode.capture.plan import plan_of
from labcode.capture.schedule import Pace, alone
from labcode.capture.sources import sources_of
from labcode.capture.tools import Doctor
from labcode.errors import LabError, ToolError, describe_os_error
from labcode.freshness import source_digests, version_digest
from labcode.hardware import driver, health, host, needs
from labcode.kernels import build
from labcode.show import byte_text, period
from labcode.show.terminal import escape
from labcode.tools import find_ncu, guided, require_nsys

Say = Callable[[str], None]
Keep = Callable[[list[str]], object]
_MOST_HELPERS = 4  # processes that finish what was measured, at a time
_MANY_CPUS = 8  # from here on what is measured leaves some to what is finished
_LOOK_S = 1.0


@dataclass(frozen=True)
class Site:
    """What runs need to know: the set's folder, the repository, nsys and ncu (where needed), the GPUs as
    ``CUDA_VISIBLE_DEVICES`` names them (one None: as they are), machine, what its doctor finds, and what the
    environment of programs gets.
    """

    folder: Path
    root: Path
    tools: Mapping[str, Path | None]
    gpus: tuple[str | None, ...]
    gpu_count: int
    machine: store.Machine
    doctor: Doctor
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wishes:
    """What was asked for: seconds that the capture may take, and the numbers of the GPUs that share it."""

    budget_s: float | None = None
    gpus: tuple[int, ...] = ()


@dataclass
class _Capturing:
    """An experiment on its way: where it is made, of which sources, beside which others, its runs.

    ``host_s`` is what `host.pace_s` said before and after each run, ``known_s`` what the set has of that
    machine.
    """

    experiment: Experiment
    staging: Path
    sources: dict[str, str]
    jobs: list[Job]
    gpu: str | None
    ending: list[Future[Measured]] = field(default_factory=list)
    beside: set[str] = field(default_factory=set)
    failure: BaseException | None = None
    held_s: float = 0.0  # how long it held its GPU
    task: TaskID | None = None
    host_s: list[list[float]] = field(default_factory=list)
    known_s: list[float] = field(default_factory=list)


def capture(
    experiments: list[str],
    set_name: str,
    *,
    machine: Callable[[], store.Machine],
    doctor: Doctor,
    only_missing: bool = False,
    stale: bool = False,
    wishes: Wishes | None = None,
    archive: Path | None = None,
    root: Path | None = None,
    console: Console,
) -> int:
    """Run the named experiments (all when none is named) and file each in the set as soon as it is whole.

    ``machine`` describes this machine as manifests do, ``doctor`` says what `labcode doctor` finds here.
    ``only_missing`` leaves out experiments that the set holds and whose sources have not changed since;
    ``stale`` leaves only those that the set holds and `labcode.capture.plan` calls stale.
    With a budget (``wishes``) no experiment begins that, by the times of the shipped set, would not be done
    in time; the most important go first. Several GPUs measure one experiment each.
    ``archive`` names one file to write with everything asked for that is then in the set; it is written anew
    after each experiment, so that whoever is killed keeps what was finished. ``root`` is the folder of the
    sets (`store.sets_root`). Returns 0 when all is done; 1 when some experiments failed, or
    were named but cannot run here or in the time given, while others were filed, or with ``stale`` when
    nothing fits into the budget, however often it is given. Raises `LabError` when
    nothing could be captured, and when the disk is full.
    """
    deadline = None
    wishes = wishes or Wishes()
    if wishes.budget_s is not None:
        deadline = time.monotonic() + wishes.budget_s
    chosen = choose(experiments)
    folder = (root or store.sets_root()) / check_name(set_name)
    if archive is not None:
        archives.check_target(archive)
    if stale and not (folder / MANIFEST).is_file():
        raise LabError(f"{folder}: no set to capture anew; without --stale one is made")
    go_on = "--stale" if stale else "--only-missing"
    with open_set(folder) as manifest:
        if stale:
            aged = plan_of(store.parse_manifest(manifest, folder)).names
            chosen = [experiment for experiment in chosen if experiment.id in aged]
            if not chosen:
                console.print(f"{set_name}: nothing that was asked for is stale", highlight=False)
                return 0
        fresh = _fresh(chosen, manifest, folder) if only_missing else []
        for name in fresh:
            console.print(f"{name}: already there and fresh", highlight=False)
        able, problems, too_small = _preflight([e for e in chosen if e.id not in fresh], len(wishes.gpus))
        for name, reason in problems.items():
            _say_problem(console, name, f"not run: {reason}")
        _note_skipped(folder, manifest, too_small)
        unable = len(problems)
        keep = partial(_keep, archive, folder, fresh)
        if fresh:
            keep([])
        filed: list[str] = []
        left_out: list[str] = []
        too_long: dict[str, float] = {}
        if able:
            here = machine()
            _refuse_other_gpus(set_name, manifest, here)
            site = _prepare(folder, able, wishes.gpus, here, doctor)
            _build(sorted({e.program for e in able if e.program}), console)
            filed, left_out = _capture_each(able, site, manifest, problems, console, keep, deadline)
            too_long = _too_long(able, left_out, manifest, wishes.budget_s)
            for line in _left_out(left_out, too_long, wishes.budget_s, go_on):
                console.print(line, highlight=False, soft_wrap=True)
        if problems and not filed and not fresh:
            raise ToolError("nothing was captured; why is said above")
        if archive is not None and archive.is_file():
            size = archive.stat().st_size
            console.print(f"{archive}: {byte_text(size, binary=True)}", highlight=False, soft_wrap=True)
    in_vain = stale and not filed and bool(too_long)  # whoever calls it again until all is done would not end
    return 1 if len(problems) > unable or ((problems or left_out) and experiments) or in_vain else 0


def _too_long(
    able: Iterable[Experiment], left_out: Sequence[str], manifest: store.Manifest, budget_s: float | None
) -> dict[str, float]:
    """Of those left out the ones that such a time is never enough for, and the seconds that they take."""
    pace = Pace.of_set({name: entry["wall_s"] for name, entry in manifest["experiments"].items()})
    took = {one.id: pace.expect([one]) for one in able if one.id in left_out}
    return {name: seconds for name, seconds in took.items() if budget_s is not None and seconds > budget_s}


def _left_out(
    left_out: Sequence[str], too_long: Mapping[str, float], budget_s: float | None, go_on: str
) -> Iterator[str]:
    """What is said of those left out: which the next call captures, and which only a longer one does."""
    if later := [name for name in left_out if name not in too_long]:
        yield f"left out, for they would not be done in time: {', '.join(later)}; {go_on} goes on"
    if too_long:
        told = ", ".join(f"{name} (about {period(seconds)})" for name, seconds in too_long.items())
        whole = period(budget_s or 0)
        yield f"left out, for they take longer than all of --budget ({whole}): {told}; give more"


def _capture_each(
    able: list[Experiment],
    site: Site,
    manifest: store.Manifest,
    problems: dict[str, str],
    console: Console,
    keep: Keep,
    deadline: float | None,
) -> tuple[list[str], list[str]]:
    """Capture all that the time allows; returns those filed and those left out, and adds failures to
    ``problems``.

    After each that is filed ``keep`` is given the names of those filed so far.
    """
    pace = Pace.of_set({name: entry["wall_s"] for name, entry in manifest["experiments"].items()})
    waiting = schedule.in_order(able, pace.took)
    filed: list[str] = []
    left_out: list[str] = []
    measuring: dict[Future[None], _Capturing] = {}
    ending: list[_Capturing] = []
    free = list(site.gpus)
    stop = threading.Event()
    with _progress(console) as (progress, say), _crews(len(free), stop) as (lanes, helpers):
        say(f"{len(able)} to capture{_about(pace, waiting, len(free), '; about ')}")
        if deadline is not None and not pace.took:
            say("the shipped set is not here to say what fits into --budget: what begins in time is done")
        while waiting or measuring or ending:
            while (chosen := _next(waiting, measuring, ending, free, site)) is not None:
                waiting.remove(chosen)
                if deadline is not None and pace.expect([chosen]) > deadline - time.monotonic():
                    left_out.append(chosen.id)
                    continue
                one = _begun(chosen, site, free.pop(0), list(measuring.values()))
                one.known_s = _known_s(manifest, site.machine)
                one.task = task = progress.add_task(chosen.id, total=None)
                show = partial(_show, progress, task)
                measuring[lanes.submit(_measure, one, site, helpers, show, say, stop)] = one
            going: list[Future[Any]] = [*measuring, *(f for c in ending for f in c.ending if not f.done())]
            wait(going, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
            for future in [future for future in measuring if future.done()]:
                one = measuring.pop(future)
                free.append(one.gpu)
                one.failure = future.exception()
                ending.append(one)
            for one in [one for one in ending if all(future.done() for future in one.ending)]:
                ending.remove(one)
                why = _conclude(one, site, manifest)
                if one.task is not None:
                    progress.remove_task(one.task)
                if why is not None:
                    problems[one.experiment.id] = why
                    _say_problem(console, one.experiment.id, f"failed: {why}")
                    continue
                filed.append(one.experiment.id)
                keep(filed)
                pace.learn(one.experiment.id, one.held_s)
                left = [*(other.experiment for other in (*ending, *measuring.values())), *waiting]
                more = _about(pace, left, len(site.gpus), ", about ")
                say(f"{one.experiment.id}: filed after {period(one.held_s)}; {len(left)} to go{more}")
    return filed, left_out


def _next(
    waiting: list[Experiment],
    measuring: Mapping[Future[None], _Capturing],
    ending: list[_Capturing],
    free: list[str | None],
    site: Site,
) -> Experiment | None:
    """The experiment that can begin now, or None."""
    measured = [one.experiment for one in measuring.values()]
    return schedule.next_of(waiting, measured, bool(ending), len(free), len(site.gpus))


def _about(pace: Pace, experiments: list[Experiment], gpus: int, before: str) -> str:
    """How long experiments will take here, as the end of a sentence; empty when nothing is known of them."""
    seconds = pace.expect_all(experiments, gpus)
    return f"{before}{period(seconds)}" if seconds else ""


def _begun(experiment: Experiment, site: Site, gpu: str | None, others: Iterable[_Capturing]) -> _Capturing:
    """An experiment with its folder, its runs, and a GPU; who is measured beside it is noted."""
    sources = source_digests(sources_of(experiment), site.root)
    staging = staging_folder(site.folder, experiment.id)
    jobs = [_job(experiment, run, site, staging) for run in experiment.runs]
    one = _Capturing(experiment, staging, sources, jobs, gpu)
    for other in others:
        other.beside.add(experiment.id)
        one.beside.add(other.experiment.id)
    return one


def _known_s(manifest: store.Manifest, machine: store.Machine) -> list[float]:
    """What `host.pace_s` said beside the set's runs on this machine."""
    mine = [e for e in manifest["experiments"].values() if manifest["machines"][e["machine"]] == machine]
    return [seconds for entry in mine for run in entry["runs"].values() for seconds in run.get("host_s", ())]


def _environment(one: _Capturing, site: Site) -> dict[str, str]:
    """What the environment of an experiment's programs gets: also the GPUs they are to use."""
    gpus = one.gpu if one.experiment.needs_gpus <= 1 else ",".join(gpu for gpu in site.gpus if gpu)
    return {**site.env, **({"CUDA_VISIBLE_DEVICES": gpus} if gpus else {})}


def _measure(
    one: _Capturing, site: Site, helpers: ThreadPoolExecutor, show: Say, say: Say, stop: threading.Event
) -> None:
    """Make all runs of an experiment; each is finished meanwhile, those of one that runs alone afterwards."""
    undisturbed = alone(one.experiment)
    began, measured = time.monotonic(), []
    environment = _environment(one, site)
    visible = environment.get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    numbers = [word.strip() for word in visible.split(",")]
    gpus = [int(word) for word in numbers] if all(word.isdecimal() for word in numbers) else None
    with guided(stop, environment):
        for job in one.jobs:
            parts = tools.parts(job, site.doctor)
            before = health.look(gpus)
            if undisturbed:
                one.host_s.append([host.pace_s()])
            results = [*one_by_one([(f"{job.what}: {part.step}", part) for part in parts], show)]
            told = health.between(before, health.look(gpus, ended=True))
            if undisturbed:
                one.host_s[-1].append(host.pace_s())
            if told.void:
                raise ToolError(f"{job.what}: {told.void[0]}")
            for text in told.warnings:
                say(f"{job.what}: {text}")
            seconds = {part.step: round(took, 3) for part, (_, took) in zip(parts, results, strict=True)}
            made = tools.measured(job, [result for result, _ in results], seconds)
            made = replace(made, warnings=[*made.warnings, *told.warnings])
            measured.append((job, made))
            if not undisturbed:
                one.ending.append(helpers.submit(_finish, job, made, say, stop))
    one.held_s = time.monotonic() - began
    if undisturbed:
        measured = [*_beside_the_best(one, measured, say)]
        show(f"{one.experiment.id}: export, scrub, compress")
        one.ending += [helpers.submit(_finish, *pair, say, stop) for pair in measured]


def _beside_the_best(
    one: _Capturing, measured: Iterable[tuple[Job, Measured]], say: Say
) -> Iterator[tuple[Job, Measured]]:
    """The runs of an experiment, with a warning at each beside which the host was slower than at its best."""
    best_s = min([*one.known_s, *(seconds for pair in one.host_s for seconds in pair)])
    for (job, made), pair in zip(measured, one.host_s, strict=True):
        told = health.slowed(pair, best_s)
        for text in told:
            say(f"{job.what}: {text}; capture it again when nothing else runs")
        yield job, replace(made, warnings=[*made.warnings, *told])


def _finish(job: Job, measured: Measured, say: Say, stop: threading.Event) -> Measured:
    with guided(stop, {}):
        made = finishing.finish(job, measured)
    size = sum((job.folder / name).stat().st_size for name in made.files)
    steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in made.seconds.items())
    say(f"{job.what}: {steps} s; {byte_text(size)}")
    return made


def _conclude(one: _Capturing, site: Site, manifest: store.Manifest) -> str | None:
    """File an experiment whose runs are finished and remove its folder; why it could not, or None.

    Raises `LabError` for a full disk, and what is no error of the experiment's.
    """
    experiment = one.experiment
    failures = [one.failure, *(future.exception() for future in one.ending)]
    try:
        for failure in failures:
            if failure is not None:
                raise failure
        shutil.rmtree(one.staging / "work", ignore_errors=True)
        if one.sources != source_digests(sources_of(experiment), site.root):
            raise LabError(f"{experiment.id}: its sources changed while it ran; capture it again")
        made = [future.result() for future in one.ending]
        runs: dict[str, store.RunEntry] = {
            run.name: {
                "argv": list(neutral_argv(experiment, run, site.gpu_count)),
                "tool_args": list(experiment.options(run)),
                "files": files_record(one.staging, packed(one.staging, finished.files)),
                "warnings": list(finished.warnings),
            }
            for run, finished in zip(experiment.runs, made, strict=True)
        }
        for entry, pair in zip(runs.values(), one.host_s, strict=bool(one.host_s)):
            entry["host_s"] = [float(f"{seconds:.3g}") for seconds in pair]
        whole: store.Made = {
            "title": experiment.title,
            "tool": experiment.tool,
            "captured": datetime.now(UTC).date().isoformat(),
            "sources": one.sources,
            "wall_s": round(one.held_s, 1),
            "runs": runs,
        }
        if one.beside:
            whole["shared_with"] = sorted(one.beside)
        if experiment.times:
            digest = version_digest(experiment.times, site.root)
            whole["timed"] = {"sources": list(experiment.times), "digest": digest}
        file_experiments(site.folder, manifest, [Staged(experiment.id, one.staging, whole, site.machine)])
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise LabError(f"{experiment.id}: {describe_os_error(error)}") from None
        return describe_os_error(error)
    except LabError as error:
        return str(error)
    finally:
        shutil.rmtree(one.staging, ignore_errors=True)
    return None


def _job(experiment: Experiment, run: Run, site: Site, staging: Path) -> Job:
    return Job(
        tool=experiment.tool,
        argv=neutral_argv(experiment, run, site.gpu_count),
        options=experiment.options(run),
        folder=staging,
        name=run.name,
        what=f"{experiment.id}/{run.name}",
        time_limit_s=experiment.time_limit_s,
        cwd=site.root,
        program=site.tools.get(_recorder(experiment)),
        clean=run.clean,
    )


def _recorder(experiment: Experiment) -> str:
    """The tool that is started: the power meter, which is none, reads beside nsys where nsys is needed."""
    return "nsys" if experiment.tool == "power" and "nsys" in experiment.needs else experiment.tool


def _keep(archive: Path | None, folder: Path, fresh: list[str], filed: list[str]) -> None:
    """Write the archive, if one is wanted, with what is fresh or filed; `LabError` when that fails."""
    if archive is None:
        return
    try:
        archives.write(archive, folder, [*fresh, *filed])
    except OSError as error:
        raise LabError(describe_os_error(error)) from None


def _fresh(chosen: list[Experiment], manifest: store.Manifest, folder: Path) -> list[str]:
    """The experiments that the set holds, undamaged, and whose sources and runs are today's.

    Traces that a thin experiment keeps elsewhere are not missed.
    """
    captures = store.parse_manifest(manifest, folder)
    fresh = []
    for experiment in chosen:
        record = captures.experiments.get(experiment.id)
        if record is None or verify.outdated(experiment.id, record):
            continue
        elsewhere = captures.absent(experiment.id)
        here = [(folder / experiment.id / f.name, f.sha256) for f in record.files if f not in elsewhere]
        if all(path.is_file() and store.file_sha256(path) == sha256 for path, sha256 in here):
            fresh.append(experiment.id)
    return fresh


def _preflight(
    experiments: list[Experiment], gpus: int
) -> tuple[list[Experiment], dict[str, str], dict[str, str]]:
    """The experiments that can run here; why the others cannot; and of these, what the GPUs lack.

    ``gpus`` is how many of the machine's GPUs were asked for; 0 for all.
    """
    able: list[Experiment] = []
    problems: dict[str, str] = {}
    lacking: dict[str, str] = {}
    for experiment in experiments:
        try:
            unmet = needs.unmet(needs_of(experiment))
            source_digests(sources_of(experiment), store.repository_root())
        except LabError as error:
            unmet = {"": str(error)}
        if of_gpus := "; ".join(reason for need, reason in unmet.items() if needs.is_about_gpus(need)):
            lacking[experiment.id] = of_gpus
        elif gpus and experiment.needs_gpus > gpus:
            unmet["--gpus"] = f"needs {experiment.needs_gpus} GPUs, --gpus names {gpus}"
        if unmet:
            problems[experiment.id] = "; ".join(unmet.values())
        else:
            able.append(experiment)
    return able, problems, lacking if needs.gpu_count() else {}


def _note_skipped(folder: Path, manifest: store.Manifest, lacking: Mapping[str, str]) -> None:
    """Keep in the manifest which experiments these GPUs cannot run, and why, unless the set holds them."""
    known = manifest.get("skipped", {})
    skipped = {n: why for n, why in {**known, **lacking}.items() if n not in manifest["experiments"]}
    if skipped != known:
        manifest["skipped"] = dict(sorted(skipped.items()))
        if (folder / MANIFEST).exists():
            write_json(folder / MANIFEST, manifest)


def _refuse_other_gpus(set_name: str, manifest: store.Manifest, here: store.Machine) -> None:
    """`LabError` where the set was captured on GPUs, and none of this machine is such a one."""
    mine, have = (
        {str(gpu["name"]) for machine in machines for gpu in machine.get("gpus") or () if gpu.get("name")}
        for machines in ([here], manifest["machines"].values())
    )
    if have and not mine & have:
        raise LabError(
            f"{set_name}: captured on {', '.join(sorted(have))}, and this machine has "
            f"{', '.join(sorted(mine)) or 'no GPU'}; name a set of its own with --set"
        )


def _prepare(
    folder: Path,
    able: list[Experiment],
    gpus: Sequence[int],
    machine: store.Machine,
    doctor: Doctor,
) -> Site:
    wanted = {_recorder(experiment) for experiment in able}
    programs = {
        "nsys": require_nsys() if "nsys" in wanted else None,
        "ncu": find_ncu() if "ncu" in wanted else None,
    }
    own = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    named = tuple(own[gpu] if own else str(gpu) for gpu in gpus)
    count = len(gpus) or needs.gpu_count()
    env = _keep_compiled(store.cache_folder() / "python")
    return Site(folder, store.repository_root(), programs, named or (None,), count, machine, doctor, env)


def _keep_compiled(folder: Path) -> dict[str, str]:
    """The environment with which programs share what Python compiles, in ``folder``.

    Empty where PyTorch came compiled, as ``pip`` installs it. Else, where nothing may be written beside it,
    every program would compile anew what it imports, which takes longer than to import it.
    """
    found = importlib.util.find_spec("torch")
    if found is None or found.cached is None or Path(found.cached).exists():
        return {}
    return {"PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": ""}


def _build(programs: list[str], console: Console) -> None:
    """Compile the CUDA programs, all at a time, so that no run waits for its own; a failure is left to it."""
    devices = driver.ask().devices
    if not programs or not devices:
        return
    began = time.monotonic()
    major, minor = map(int, devices[0].compute_capability.split("."))
    with ThreadPoolExecutor(min(len(programs), len(os.sched_getaffinity(0)))) as pool:
        for future in [pool.submit(build.build, program, (major, minor)) for program in programs]:
            future.exception()
    count = f"{len(programs)} CUDA program" + "s" * (len(programs) > 1)
    console.print(f"{count} built or at hand after {period(time.monotonic() - began)}", highlight=False)


@contextmanager
def _crews(lanes: int, stop: threading.Event) -> Iterator[tuple[ThreadPoolExecutor, ThreadPoolExecutor]]:
    """Threads that measure, one per GPU, and threads that finish what was measured, on CPUs of their own.

    On the way out through an error they stop what they run, at once.
    """
    cpus = sorted(os.sched_getaffinity(0))
    helpers = min(_MOST_HELPERS, max(1, len(cpus) // 4))
    aside = cpus[-helpers:] if len(cpus) >= _MANY_CPUS else cpus
    measure = ThreadPoolExecutor(lanes, "measure")
    finish = ThreadPoolExecutor(helpers, "finish", initializer=_step_aside, initargs=(aside,))
    try:
        yield measure, finish
    except BaseException:
        stop.set()
        raise
    finally:
        measure.shutdown(cancel_futures=True)
        finish.shutdown(cancel_futures=True)


def _step_aside(cpus: list[int]) -> None:
    """This thread, and what it starts, gives way to others and stays on these CPUs."""
    with suppress(OSError):
        os.sched_setaffinity(0, cpus)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)


def _say_problem(console: Console, name: str, text: str) -> None:
    console.print(f"[red]{name}: {escape(text)}[/red]", highlight=False, soft_wrap=True)


def _show(progress: Progress, task: TaskID, step: str) -> None:
    progress.update(task, description=step)


@contextmanager
def _progress(console: Console) -> Iterator[tuple[Progress, Say]]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield progress, lambda text: console.print(text, highlight=False, soft_wrap=True)
