"""Capture experiments on this machine: their names in, files of a capture set (and an archive) out."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from labcode import store
from labcode.capture import archive as archives
from labcode.capture import bench, ncu, nsys, power, privacy, scan, torch_profile
from labcode.capture.catalogue import Experiment, Run, choose, needs_of, neutral_argv
from labcode.capture.filing import (
    Staged,
    check_name,
    file_experiments,
    files_record,
    open_set,
    staging_folder,
    write_json,
)
from labcode.capture.privacy import Names
from labcode.capture.scrub import compress, scrub_export
from labcode.capture.trim import MEASURED, trim_export
from labcode.errors import LabError, ToolError, describe_os_error
from labcode.freshness import is_fresh, source_digests, version_digest
from labcode.hardware import needs
from labcode.tools import find_ncu, require_nsys

Say = Callable[[str], None]
Keep = Callable[[list[str]], object]


@dataclass(frozen=True)
class Site:
    """What runs need to know: the set's folder, the repository, nsys and ncu (where needed), GPUs,
    machine, and what its doctor finds.
    """

    folder: Path
    root: Path
    nsys: Path | None
    gpu_count: int
    machine: Mapping[str, Any]
    doctor: Callable[[], Mapping[str, Any]]
    ncu: Path | None = None


def capture(
    experiments: list[str],
    set_name: str,
    *,
    machine: Callable[[], Mapping[str, Any]],
    doctor: Callable[[], Mapping[str, Any]],
    resume: bool = False,
    archive: Path | None = None,
    root: Path | None = None,
    console: Console,
) -> int:
    """Run the named experiments (all when none is named) and file each in the set as soon as it is whole.

    ``machine`` describes this machine as manifests do, ``doctor`` says what `labcode doctor` finds here.
    ``resume`` leaves out experiments that the set holds and whose sources have not changed since.
    ``archive`` names one file to write with everything asked for that is then in the set; it is written anew
    after each experiment, so that whoever is killed keeps what was finished. ``root`` is the folder of the
    sets (`store.sets_root`). Returns 0 when all is done; 1 when some experiments failed, or
    were named but cannot run here, while others were filed. Raises `LabError` when nothing could be
    captured, and when the disk is full.
    """
    chosen = choose(experiments)
    folder = (root or store.sets_root()) / check_name(set_name)
    if archive is not None:
        archives.check_target(archive)
    with open_set(folder) as manifest:
        fresh = _fresh(chosen, manifest, folder) if resume else []
        for name in fresh:
            console.print(f"{name}: already there and fresh", highlight=False)
        able, problems = _preflight([e for e in chosen if e.id not in fresh])
        for name, reason in problems.items():
            _say_problem(console, name, f"not run: {reason}")
        unable = len(problems)
        keep = partial(_keep, archive, folder, fresh)
        if fresh:
            keep([])
        filed = []
        if able:
            site = _prepare(folder, able, machine(), doctor)
            filed = _capture_each(able, site, manifest, problems, console, keep)
        if problems and not filed and not fresh:
            raise ToolError(
                "nothing was captured; " + "; ".join(f"{n}: {why}" for n, why in problems.items())
            )
        if archive is not None:
            size = archive.stat().st_size
            console.print(f"{archive}: {size / (1 << 20):.2f} MiB", highlight=False, soft_wrap=True)
    return 1 if len(problems) > unable or (problems and experiments) else 0


def _capture_each(
    able: list[Experiment],
    site: Site,
    manifest: dict[str, Any],
    problems: dict[str, str],
    console: Console,
    keep: Keep,
) -> list[str]:
    """Capture one experiment after another; returns those filed and adds the others to ``problems``.

    After each that is filed ``keep`` is given the names of those filed so far.
    """
    filed: list[str] = []
    with _progress(console) as (progress, say):
        for experiment in able:
            task = progress.add_task(experiment.id, total=None)
            try:
                _capture_one(experiment, site, manifest, partial(_show, progress, task), say)
                filed.append(experiment.id)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise LabError(f"{experiment.id}: {describe_os_error(error)}") from None
                problems[experiment.id] = describe_os_error(error)
            except LabError as error:
                problems[experiment.id] = str(error)
            finally:
                progress.remove_task(task)
            if experiment.id in filed:
                keep(filed)
            else:
                _say_problem(console, experiment.id, f"failed: {problems[experiment.id]}")
    return filed


def _keep(archive: Path | None, folder: Path, fresh: list[str], filed: list[str]) -> None:
    """Write the archive, if one is wanted, with what is fresh or filed; `LabError` when that fails."""
    if archive is None:
        return
    try:
        archives.write(archive, folder, [*fresh, *filed])
    except OSError as error:
        raise LabError(describe_os_error(error)) from None


def _capture_one(
    experiment: Experiment,
    site: Site,
    manifest: dict[str, Any],
    show: Say,
    say: Say,
) -> None:
    """Make all runs of an experiment in a staging folder, file it, and remove the folder."""
    began = time.monotonic()
    sources = source_digests(experiment.sources, site.root)
    staging = staging_folder(site.folder, experiment.id)
    try:
        runs = {}
        for run in experiment.runs:
            started = time.monotonic()
            runs[run.name] = _MAKERS[experiment.tool](experiment, run, site, staging, show)
            size = sum(file["bytes"] for file in runs[run.name]["files"].values())
            say(f"{experiment.id}/{run.name}: {time.monotonic() - started:.1f} s, {size / 1e6:.3f} MB")
        shutil.rmtree(staging / "work", ignore_errors=True)
        if sources != source_digests(experiment.sources, site.root):
            raise LabError(f"{experiment.id}: its sources changed while it ran; capture it again")
        entry = {
            "title": experiment.title,
            "tool": experiment.tool,
            "captured": datetime.now(UTC).date().isoformat(),
            "sources": sources,
            "wall_s": round(time.monotonic() - began, 1),
            "runs": runs,
        }
        if experiment.times:
            timed = version_digest(experiment.times, site.root)
            entry["timed"] = {"sources": list(experiment.times), "digest": timed}
        file_experiments(site.folder, manifest, [Staged(experiment.id, staging, entry, site.machine)])
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _make_nsys(experiment: Experiment, run: Run, site: Site, staging: Path, show: Say) -> dict[str, Any]:
    """One run without a profiler, then one under nsys, exported, trimmed, scrubbed, compressed."""
    assert site.nsys is not None
    what = f"{experiment.id}/{run.name}"
    work = staging / "work"
    work.mkdir(mode=0o700, exist_ok=True)
    argv = neutral_argv(experiment, run, site.gpu_count)
    clean, record, packed = (
        staging / f"{run.name}{suffix}" for suffix in (".clean.json", ".json", ".sqlite.xz")
    )
    show(f"{what}: without profiler")
    bench.run_program(argv, clean, time_limit_s=experiment.time_limit_s, cwd=site.root, what=what)
    show(f"{what}: under nsys")
    options = (*experiment.nsys_args, *run.tool_args)
    report, raw, scrubbed = (
        work / f"{run.name}{suffix}" for suffix in (".nsys-rep", ".raw.sqlite", ".sqlite")
    )
    result = nsys.profile(
        site.nsys,
        options,
        bench.real_command(argv, record),
        report,
        time_limit_s=experiment.time_limit_s,
        cwd=site.root,
        what=what,
    )
    bench.check_record(record, f"{what} under nsys")
    show(f"{what}: export, trim, scrub")
    nsys.export(site.nsys, report, raw, what=what)
    if trim_export(raw) is None:
        raise ToolError(f"{what}: no NVTX range {MEASURED} was recorded; the program must open one")
    names = scrub_export(raw, scrubbed).names
    _refuse_private(scrubbed, what, names)
    show(f"{what}: compress")
    compress(scrubbed, packed)
    entry = _entry(argv, options, staging, [packed.name, record.name, clean.name])
    entry["warnings"] = list(nsys.warnings(result, scrubbed))
    for path in (report, raw, scrubbed):
        path.unlink()
    return entry


def _make_ncu(experiment: Experiment, run: Run, site: Site, staging: Path, show: Say) -> dict[str, Any]:
    """One run without a profiler, then one under ncu, scrubbed and compressed."""
    assert site.ncu is not None
    argv, options = neutral_argv(experiment, run, site.gpu_count), (*experiment.ncu_args, *run.tool_args)
    names, warnings = ncu.make_run(
        *(site.ncu, argv, options, staging, run.name, show),
        time_limit_s=experiment.time_limit_s,
        cwd=site.root,
        what=f"{experiment.id}/{run.name}",
    )
    entry = _entry(argv, (*ncu.ALWAYS, *options), staging, names)
    entry["warnings"] = list(warnings)
    return entry


def _make_recorded(experiment: Experiment, run: Run, site: Site, staging: Path, show: Say) -> dict[str, Any]:
    """One run without a profiler, then one that PyTorch records: its operators, or its memory."""
    assert experiment.tool == "torch" or experiment.tool == "memory"
    argv, options = neutral_argv(experiment, run, site.gpu_count), (*experiment.torch_args, *run.tool_args)
    names = torch_profile.make_run(
        *(argv, options, staging, run.name, show),
        tool=experiment.tool,
        time_limit_s=experiment.time_limit_s,
        cwd=site.root,
        what=f"{experiment.id}/{run.name}",
    )
    return _entry(argv, options, staging, names)


def _make_power(experiment: Experiment, run: Run, site: Site, staging: Path, show: Say) -> dict[str, Any]:
    """One run beside the power meter; under nsys too, where the experiment needs that."""
    argv = neutral_argv(experiment, run, site.gpu_count)
    under = power.Under(site.nsys, experiment.nsys_args) if "nsys" in experiment.needs and site.nsys else None
    options = (*(under.options if under else ()), *run.tool_args)
    names, warnings = power.make_run(
        *(argv, run.tool_args, staging, run.name, show),
        time_limit_s=experiment.time_limit_s,
        cwd=site.root,
        what=f"{experiment.id}/{run.name}",
        under=under,
    )
    entry = _entry(argv, options, staging, names)
    entry["warnings"] = list(warnings)
    return entry


def _make_bench(experiment: Experiment, run: Run, site: Site, staging: Path, show: Say) -> dict[str, Any]:
    """One run of a program that measures itself."""
    what = f"{experiment.id}/{run.name}"
    argv = neutral_argv(experiment, run, site.gpu_count)
    record = staging / f"{run.name}.json"
    show(what)
    bench.run_program(argv, record, time_limit_s=experiment.time_limit_s, cwd=site.root, what=what)
    _refuse_private(record, what)
    return _entry(argv, (), staging, [record.name])


def _make_doctor(experiment: Experiment, run: Run, site: Site, staging: Path, show: Say) -> dict[str, Any]:
    """What `labcode doctor --json` says, without this machine's paths."""
    what = f"{experiment.id}/{run.name}"
    record = staging / f"{run.name}.json"
    show(what)
    write_json(record, privacy.reduce_record(site.doctor(), privacy.machine_names()))
    _refuse_private(record, what)
    return _entry(neutral_argv(experiment, run, site.gpu_count), (), staging, [record.name])


_MAKERS = {
    "nsys": _make_nsys,
    "ncu": _make_ncu,
    "torch": _make_recorded,
    "memory": _make_recorded,
    "power": _make_power,
    "bench": _make_bench,
    "doctor": _make_doctor,
}


def _entry(
    argv: tuple[str, ...], options: tuple[str, ...], staging: Path, names: list[str]
) -> dict[str, Any]:
    return {
        "argv": list(argv),
        "tool_args": list(options),
        "files": files_record(staging, names),
        "warnings": [],
    }


def _refuse_private(path: Path, what: str, names: Names = ()) -> None:
    names = names or privacy.machine_names()
    why = f"{what}: something private is left in {path.name}, so it was not filed"
    scan.refuse_private(scan.texts_of(path), names, why, LabError)


def _fresh(chosen: list[Experiment], manifest: dict[str, Any], folder: Path) -> list[str]:
    """The experiments that the set holds whole and whose sources and runs are today's."""
    held = store.parse_manifest(manifest, folder).experiments
    fresh = []
    for experiment in chosen:
        record = held.get(experiment.id)
        if (
            record is None
            or set(record.runs) != {run.name for run in experiment.runs}
            or not is_fresh(record)
        ):
            continue
        files = [
            (folder / experiment.id / file.name, file.sha256)
            for run in record.runs.values()
            for file in run.files
        ]
        if all(path.is_file() and store.file_sha256(path) == sha256 for path, sha256 in files):
            fresh.append(experiment.id)
    return fresh


def _preflight(experiments: list[Experiment]) -> tuple[list[Experiment], dict[str, str]]:
    """The experiments that can run here, and why the others cannot."""
    able, problems = [], {}
    for experiment in experiments:
        try:
            missing = list(needs.unmet(needs_of(experiment)).values())
            source_digests(experiment.sources, store.repository_root())
        except LabError as error:
            missing = [str(error)]
        if missing:
            problems[experiment.id] = "; ".join(missing)
        else:
            able.append(experiment)
    return able, problems


def _prepare(
    folder: Path,
    able: list[Experiment],
    machine: Mapping[str, Any],
    doctor: Callable[[], Mapping[str, Any]],
) -> Site:
    found = require_nsys() if any("nsys" in needs_of(experiment) for experiment in able) else None
    ncu_found = find_ncu() if any(experiment.tool == "ncu" for experiment in able) else None
    return Site(folder, store.repository_root(), found, needs.gpu_count(), machine, doctor, ncu_found)


def _say_problem(console: Console, name: str, text: str) -> None:
    console.print(f"[red]{name}: {escape(text)}[/red]", highlight=False, soft_wrap=True)


def _show(progress: Progress, task: TaskID, step: str) -> None:
    progress.update(task, description=step)


@contextmanager
def _progress(console: Console) -> Iterator[tuple[Progress, Say]]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield progress, lambda text: console.print(text, highlight=False, soft_wrap=True)
