"""Capture experiments on this machine: their names in, files of a capture set (and an archive) out.

One experiment is measured at a time, or one a GPU where several GPUs are given. What was measured is
exported, scrubbed and compressed meanwhile, on other CPUs, except beside experiments whose measurements
depend on the host: nothing else goes on while those are measured. The programs whose turns are next import
PyTorch meanwhile (`labcode.capture.ahead`), those of the next experiment too. Who is measured beside whom,
`labcode.capture.schedule` says.
"""

import errno
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from labcode import store
from labcode.capture import (
    ahead,
    bench,
    finishing,
    ncu,
    nsys,
    power,
    privacy,
    scan,
    schedule,
    torch_profile,
    verify,
)
from labcode.capture import archive as archives
from labcode.capture.catalogue import choose, needs_of, neutral_argv
from labcode.capture.experiments.record import Experiment, Run
from labcode.capture.filing import (
    MANIFEST,
    Staged,
    check_name,
    file_experiments,
    files_record,
    open_set,
    staging_folder,
    write_json,
)
from labcode.capture.job import Job, Measured, Part, Seconds
from labcode.capture.schedule import Pace, alone, ends_on_cpus
from labcode.errors import LabError, ToolError, describe_os_error
from labcode.freshness import source_digests, version_digest
from labcode.hardware import driver, needs
from labcode.kernels import build
from labcode.show import byte_text, period
from labcode.tools import find_ncu, guided, require_nsys

Say = Callable[[str], None]
Keep = Callable[[list[str]], object]
_MOST_HELPERS = 4  # processes that finish what was measured, at a time
_MOST_AHEAD = 4  # programs that import PyTorch, or have, before their turns, beside what is measured
_MOST_AT_A_TIME = 8  # the same while nothing is measured
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
    machine: Mapping[str, Any]
    doctor: Callable[[], Mapping[str, Any]]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wishes:
    """What was asked for: seconds that the capture may take, and the numbers of the GPUs that share it."""

    budget_s: float | None = None
    gpus: tuple[int, ...] = ()


@dataclass
class _Capturing:
    """An experiment on its way: where it is made, of which sources, beside which others, its runs.

    ``line`` holds programs that import PyTorch early, ``quiet`` is set once all before it are filed.
    """

    experiment: Experiment
    staging: Path
    sources: dict[str, str]
    jobs: list[Job]
    parts: list[tuple[Job, Part]]
    line: ahead.Line | None
    gpu: str | None = None
    holds_gpu: bool = True
    began: float = 0.0
    quiet: threading.Event = field(default_factory=threading.Event)
    ending: list[Future[Measured]] = field(default_factory=list)
    beside: set[str] = field(default_factory=set)
    failure: BaseException | None = None
    held_s: float = 0.0  # how long it held its GPU
    task: TaskID | None = None

    def told(self) -> list[ahead.Told]:
        """What is said while each part runs, and the part."""
        return [(f"{job.what}: {part.step}", part) for job, part in self.parts]

    def give_up(self) -> None:
        """End what waits for a turn that does not come."""
        if self.line is not None:
            self.line.close()
        shutil.rmtree(self.staging, ignore_errors=True)

    def on_cpus(self) -> bool:
        """Whether what is being measured are programs of the lab that need no GPU, or none any more."""
        if not ends_on_cpus(self.experiment) or not self.experiment.needs_gpus:
            return ends_on_cpus(self.experiment)
        since = time.time() - (time.monotonic() - self.began)
        with suppress(OSError):
            made = Path(tempfile.gettempdir()).glob(self.experiment.frees_gpu)
            return any(file.stat().st_mtime >= since for file in made)
        return False


def capture(
    experiments: list[str],
    set_name: str,
    *,
    machine: Callable[[], Mapping[str, Any]],
    doctor: Callable[[], Mapping[str, Any]],
    only_missing: bool = False,
    wishes: Wishes | None = None,
    archive: Path | None = None,
    root: Path | None = None,
    console: Console,
) -> int:
    """Run the named experiments (all when none is named) and file each in the set as soon as it is whole.

    ``machine`` describes this machine as manifests do, ``doctor`` says what `labcode doctor` finds here.
    ``only_missing`` leaves out experiments that the set holds and whose sources have not changed since.
    With a budget (``wishes``) no experiment begins that, by the times of the shipped set, would not be done
    in time; the most important go first. Several GPUs measure one experiment each.
    ``archive`` names one file to write with everything asked for that is then in the set; it is written anew
    after each experiment, so that whoever is killed keeps what was finished. ``root`` is the folder of the
    sets (`store.sets_root`). Returns 0 when all is done; 1 when some experiments failed, or
    were named but cannot run here or in the time given, while others were filed. Raises `LabError` when
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
    with open_set(folder) as manifest:
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
        if able:
            here = machine()
            _refuse_other_gpus(set_name, manifest, here)
            site = _prepare(folder, able, wishes.gpus, here, doctor)
            _build(sorted({e.program for e in able if e.program}), console)
            filed, left_out = _capture_each(able, site, manifest, problems, console, keep, deadline)
        if problems and not filed and not fresh:
            raise ToolError(
                "nothing was captured; " + "; ".join(f"{n}: {why}" for n, why in problems.items())
            )
        if archive is not None and archive.is_file():
            size = archive.stat().st_size
            console.print(f"{archive}: {byte_text(size, binary=True)}", highlight=False, soft_wrap=True)
    return 1 if len(problems) > unable or ((problems or left_out) and experiments) else 0


def _capture_each(
    able: list[Experiment],
    site: Site,
    manifest: dict[str, Any],
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
    early: _Capturing | None = None  # the next, while its programs import PyTorch
    free = list(site.gpus)
    stop = threading.Event()
    with _progress(console) as (progress, say), _crews(len(free) + 1, stop) as (lanes, helpers):
        say(f"{len(able)} to capture{_about(pace, waiting, len(free), '; about ')}")
        while waiting or measuring or ending:
            hurry = (
                deadline is not None
                and pace.expect_all(waiting, len(site.gpus)) > deadline - time.monotonic()
            )
            while (chosen := _next(waiting, measuring.values(), free, hurry)) is not None:
                waiting = schedule.after(chosen, waiting, hurry)
                one, early = (early, None) if early and early.experiment is chosen else (None, early)
                if deadline is not None and pace.expect([chosen]) > deadline - time.monotonic():
                    left_out.append(chosen.id)
                    if one is not None:
                        one.give_up()
                    continue
                if early and alone(chosen):
                    early.give_up()
                    early = None
                one = one or _prepared(chosen, site)
                _begin(one, free, list(measuring.values()))
                one.task = task = progress.add_task(chosen.id, total=None)
                show = partial(_show, progress, task)
                measuring[lanes.submit(_measure, one, site, helpers, show, say, stop)] = one
            if not early and len(site.gpus) == 1 and _to_import(waiting, measuring.values()):
                early = _prepared(waiting[0], site)
                if early.line is not None:
                    with guided(stop, _environment(early, site)):
                        early.line.begin(_most_ahead(site))
            for one in measuring.values() if not ending else ():
                one.quiet.set()
            going: list[Future[Any]] = [*measuring, *(f for c in ending for f in c.ending if not f.done())]
            wait(going, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
            for one in measuring.values():
                if one.holds_gpu and one.on_cpus():
                    one.holds_gpu = False
                    free.append(one.gpu)
            for future in [future for future in measuring if future.done()]:
                one = measuring.pop(future)
                if one.holds_gpu:
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
    if left_out:
        console.print(
            f"left out, for they would not be done in time: {', '.join(left_out)}; --only-missing goes on",
            highlight=False,
            soft_wrap=True,
        )
    return filed, left_out


def _next(
    waiting: list[Experiment], measuring: Iterable[_Capturing], free: list[str | None], hurry: bool
) -> Experiment | None:
    """The experiment that can begin now, or None."""
    told = [(one.experiment, one.on_cpus()) for one in measuring]
    return schedule.next_of(waiting, told, len(free), hurry)


def _about(pace: Pace, experiments: list[Experiment], gpus: int, before: str) -> str:
    """How long experiments will take here, as the end of a sentence; empty when nothing is known of them."""
    seconds = pace.expect_all(experiments, gpus)
    return f"{before}{period(seconds)}" if seconds else ""


def _to_import(waiting: list[Experiment], measuring: Iterable[_Capturing]) -> bool:
    """Whether programs of the next experiment may import PyTorch beside those that are measured."""
    if any(alone(one.experiment) or (one.line and not one.line.all_begun) for one in measuring):
        return False
    return bool(waiting) and "torch" in waiting[0].needs


def _prepared(experiment: Experiment, site: Site) -> _Capturing:
    """An experiment with its folder and its programs, none of which has begun."""
    sources = source_digests(experiment.sources, site.root)
    staging = staging_folder(site.folder, experiment.id)
    jobs = [_job(experiment, run, site, staging) for run in experiment.runs]
    parts = [(job, part) for job in jobs for part in _PARTS[job.tool](job, site)]
    one = _Capturing(experiment, staging, sources, jobs, parts, None, site.gpus[0])
    if "torch" in experiment.needs:
        at_a_time = max(1, min(_MOST_AT_A_TIME, len(os.sched_getaffinity(0)) // 2))
        most = at_a_time if alone(experiment) else _most_ahead(site)
        one.line = ahead.Line(one.told(), staging / "ahead", beside=not alone(experiment), most=most)
    return one


def _most_ahead(site: Site) -> int:
    """How many programs may import PyTorch, or have, beside what is measured on one of the GPUs."""
    return max(1, min(_MOST_AHEAD, len(os.sched_getaffinity(0)) // 4 // len(site.gpus)))


def _begin(one: _Capturing, free: list[str | None], others: list[_Capturing]) -> None:
    """Give an experiment a GPU, where it needs one, and note who is measured beside it."""
    one.began = time.monotonic()
    one.holds_gpu = bool(free) and not one.on_cpus()
    one.gpu = free.pop(0) if one.holds_gpu else None
    for other in others:
        other.beside.add(one.experiment.id)
        one.beside.add(other.experiment.id)


def _environment(one: _Capturing, site: Site) -> dict[str, str]:
    """What the environment of an experiment's programs gets: also the GPUs they are to use."""
    gpus = one.gpu if one.experiment.needs_gpus <= 1 else ",".join(gpu for gpu in site.gpus if gpu)
    return {**site.env, **({"CUDA_VISIBLE_DEVICES": gpus} if gpus else {})}


def _measure(
    one: _Capturing, site: Site, helpers: ThreadPoolExecutor, show: Say, say: Say, stop: threading.Event
) -> None:
    """Make all runs of an experiment; each is finished meanwhile, those of one that runs alone afterwards."""
    undisturbed = alone(one.experiment)
    with guided(stop, _environment(one, site)):
        turns = one.line.turns(show) if one.line else ahead.one_by_one(one.told(), show)
        with closing(one.line or turns), closing(turns):
            if one.line:
                one.line.begin()
            while undisturbed and not one.quiet.wait(_LOOK_S) and not stop.is_set():
                show(f"{one.experiment.id}: waits until what was measured before is filed")
            measured = []
            for job in one.jobs:
                steps = [part.step for other, part in one.parts if other is job]
                results = [next(turns) for _ in steps]
                seconds = {step: round(result[1], 3) for step, result in zip(steps, results, strict=True)}
                made = _MEASURED[job.tool](job, [result[0] for result in results], seconds)
                measured.append((job, made))
                if not undisturbed:
                    one.ending.append(helpers.submit(_finish, job, made, say, stop))
    one.held_s = time.monotonic() - one.began
    if undisturbed:
        show(f"{one.experiment.id}: export, scrub, compress")
        one.ending += [helpers.submit(_finish, *pair, say, stop) for pair in measured]


def _finish(job: Job, measured: Measured, say: Say, stop: threading.Event) -> Measured:
    with guided(stop, {}):
        made = finishing.finish(job, measured)
    size = sum((job.folder / name).stat().st_size for name in made.files)
    steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in made.seconds.items())
    say(f"{job.what}: {steps} s; {byte_text(size)}")
    return made


def _conclude(one: _Capturing, site: Site, manifest: dict[str, Any]) -> str | None:
    """File an experiment whose runs are finished and remove its folder; why it could not, or None.

    Raises `LabError` for a full disk, and what is no error of the experiment's.
    """
    experiment = one.experiment
    failures = [one.failure, *(future.exception() for future in one.ending)]
    try:
        for failure in failures:
            if failure is not None:
                raise failure
        for raw in ("work", "ahead"):
            shutil.rmtree(one.staging / raw, ignore_errors=True)
        if one.sources != source_digests(experiment.sources, site.root):
            raise LabError(f"{experiment.id}: its sources changed while it ran; capture it again")
        made = [future.result() for future in one.ending]
        runs = {
            run.name: {
                "argv": list(neutral_argv(experiment, run, site.gpu_count)),
                "tool_args": list(experiment.options(run)),
                "files": files_record(one.staging, finished.files),
                "warnings": list(finished.warnings),
            }
            for run, finished in zip(experiment.runs, made, strict=True)
        }
        entry = {
            "title": experiment.title,
            "tool": experiment.tool,
            "captured": datetime.now(UTC).date().isoformat(),
            "sources": one.sources,
            "wall_s": round(one.held_s, 1),
            "runs": runs,
        }
        if one.beside:
            entry["shared_with"] = sorted(one.beside)
        if experiment.times:
            digest = version_digest(experiment.times, site.root)
            entry["timed"] = {"sources": list(experiment.times), "digest": digest}
        file_experiments(site.folder, manifest, [Staged(experiment.id, one.staging, entry, site.machine)])
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


def _bench_parts(job: Job, site: Site) -> tuple[Part, ...]:
    """One run of a program that measures itself."""
    return (bench.program(job, "run", ".json"),)


def _doctor_parts(job: Job, site: Site) -> tuple[Part, ...]:
    """What `labcode doctor --json` says, without this machine's paths."""

    def told() -> None:
        write_json(job.file(".json"), privacy.reduce_record(site.doctor(), privacy.machine_names()))

    return (Part("run", told, job.file(".json")),)


def _measured_itself(job: Job, results: Sequence[Any], seconds: Seconds) -> Measured:
    record = job.file(".json")
    why = f"{job.what}: something private is left in {record.name}, so it was not filed"
    scan.refuse_private(scan.texts_of(record), privacy.machine_names(), why, LabError)
    return Measured([record.name], seconds, finished=True)


_PARTS: dict[str, Callable[[Job, Site], Sequence[Part]]] = {
    "nsys": lambda job, _: nsys.parts(job),
    "ncu": lambda job, _: ncu.parts(job),
    "torch": lambda job, _: torch_profile.parts(job),
    "memory": lambda job, _: torch_profile.parts(job),
    "power": lambda job, _: power.parts(job),
    "bench": _bench_parts,
    "doctor": _doctor_parts,
}
_MEASURED: dict[str, Callable[[Job, Sequence[Any], Seconds], Measured]] = {
    "nsys": nsys.measured,
    "ncu": ncu.measured,
    "torch": torch_profile.measured,
    "memory": torch_profile.measured,
    "power": power.measured,
    "bench": _measured_itself,
    "doctor": _measured_itself,
}


def _keep(archive: Path | None, folder: Path, fresh: list[str], filed: list[str]) -> None:
    """Write the archive, if one is wanted, with what is fresh or filed; `LabError` when that fails."""
    if archive is None:
        return
    try:
        archives.write(archive, folder, [*fresh, *filed])
    except OSError as error:
        raise LabError(describe_os_error(error)) from None


def _fresh(chosen: list[Experiment], manifest: dict[str, Any], folder: Path) -> list[str]:
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
            source_digests(experiment.sources, store.repository_root())
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


def _note_skipped(folder: Path, manifest: dict[str, Any], lacking: Mapping[str, str]) -> None:
    """Keep in the manifest which experiments these GPUs cannot run, and why, unless the set holds them."""
    known = manifest.get("skipped", {})
    skipped = {n: why for n, why in {**known, **lacking}.items() if n not in manifest["experiments"]}
    if skipped != known:
        manifest["skipped"] = dict(sorted(skipped.items()))
        if (folder / MANIFEST).exists():
            write_json(folder / MANIFEST, manifest)


def _refuse_other_gpus(set_name: str, manifest: Mapping[str, Any], here: Mapping[str, Any]) -> None:
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
    machine: Mapping[str, Any],
    doctor: Callable[[], Mapping[str, Any]],
) -> Site:
    wanted = {_recorder(experiment) for experiment in able}
    tools = {
        "nsys": require_nsys() if "nsys" in wanted else None,
        "ncu": find_ncu() if "ncu" in wanted else None,
    }
    own = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    named = tuple(own[gpu] if own else str(gpu) for gpu in gpus)
    count = len(gpus) or needs.gpu_count()
    env = ahead.keep_compiled(store.cache_folder() / "python")
    return Site(folder, store.repository_root(), tools, named or (None,), count, machine, doctor, env)


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
    """Threads that measure, one a GPU, and threads that finish what was measured, on CPUs of their own.

    On the way out through an error they stop what they run, at once.
    """
    cpus = sorted(os.sched_getaffinity(0))
    helpers = min(_MOST_HELPERS, max(1, len(cpus) // 4))
    aside = cpus[-helpers:] if len(cpus) >= schedule.MANY_CPUS else cpus
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
