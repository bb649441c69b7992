"""Runs the cases on a GPU machine: each program without a profiler, and as `labcode record` records it.

    python3 benchmarks/diagnosis/run.py --out DIR --gpus 1 --budget 540

leaves ``DIR/results.jsonl`` (a line for each thing that was run), ``DIR/run.log``, ``DIR/machine.json``, and
``DIR/parts.tar.00`` …: a tar in pieces, of scrubbed exports (``CASE.NAME.sqlite.xz``). Programs run without a
profiler come from a process that has imported PyTorch already and forks; they run alone. Reports are made
into exports while the next program starts. What a budget did not suffice for is told in the last line;
``--first CASE`` goes on there.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

LIMIT_S = 60.0  # for a program, start-up included
PIECE = 15 << 20
PIECES = 4
PENDING = 9  # reports that may wait to be exported


@dataclass(frozen=True)
class Program:
    """A script of a case."""

    case: str
    name: str
    gpus: int

    @property
    def path(self) -> Path:
        """Where it lies."""
        return HERE / self.case / f"{self.name}.py"

    @property
    def label(self) -> str:
        """What its files are called."""
        return f"{self.case}.{self.name}"


def programs(gpus: int, first: str, only: list[str]) -> list[Program]:
    """All scripts of cases for so many GPUs, in the order of their names."""
    found = []
    for told in sorted(HERE.glob("*/case.toml")):
        case = told.parent.name
        count = tomllib.loads(told.read_text(encoding="utf-8"))["gpus"]
        if count != gpus or case < first or (only and case not in only):
            continue
        for name in ("fault", "mended", "good"):
            if (told.parent / f"{name}.py").is_file():
                found.append(Program(case, name, gpus))
    return found


def environment(work: Path) -> dict[str, str]:
    """Of a program: fresh folders for what compilers keep, so that no run finds what another one made."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor"),
        "TRITON_CACHE_DIR": str(work / "triton"),
        "TMPDIR": str(work),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "8"),
    }


def last_json(text: str) -> dict[str, Any]:
    """The last line that holds seconds of an iteration."""
    for line in reversed(text.splitlines()):
        with contextlib.suppress(ValueError):
            told = json.loads(line)
            if isinstance(told, dict) and "seconds_per_iteration" in told:
                return told
    return {}


# ------------------------------------------------------------------ without a profiler


def zygote() -> None:
    """Import PyTorch once; then fork for each line on stdin (script, ranks, folder) and say how it ended."""
    import torch  # noqa: F401

    for number, line in enumerate(sys.stdin):
        script, ranks, folder = json.loads(line)
        children = []
        for rank in range(ranks):
            child = os.fork()
            if child == 0:
                _become(script, rank, ranks, folder, 29500 + number % 400)
            children.append(child)
        began = time.monotonic()
        codes: dict[int, int] = {}
        while len(codes) < ranks:
            for child in children:
                if child not in codes:
                    ended, status = os.waitpid(child, os.WNOHANG)
                    if ended:
                        codes[child] = os.waitstatus_to_exitcode(status)
            if time.monotonic() - began > LIMIT_S or any(codes.values()):
                for child in set(children) - set(codes):
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child, signal.SIGKILL)
            time.sleep(0.005)
        print(
            json.dumps({"code": max(map(abs, codes.values())), "wall_s": time.monotonic() - began}),
            flush=True,
        )


def _become(script: str, rank: int, ranks: int, folder: str, port: int) -> None:
    import runpy

    code = 1
    try:
        os.setpgid(0, 0)
        told = os.open(f"{folder}/rank{rank}.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, stream in enumerate((nothing, told, told)):
            os.dup2(stream, number)
        sys.stdin = os.fdopen(0)
        sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
        os.environ.update(environment(Path(folder)))
        tempfile.tempdir = folder
        if ranks > 1:
            address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            os.environ.update(address, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
        os.chdir(folder)
        sys.argv = [script]
        sys.path[0] = str(Path(script).parent)
        try:
            runpy.run_path(script, run_name="__main__")
            code = 0
        except SystemExit as end:
            code = int(end.code or 0) if not isinstance(end.code, str) else 1
        except BaseException:
            import traceback

            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


class Clean:
    """The process that forks programs without a profiler."""

    def __init__(self) -> None:
        words = [sys.executable, str(Path(__file__).resolve()), "--zygote"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, program: Program) -> dict[str, Any]:
        """How a program ended and what it measured."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            self.process.stdin.write(json.dumps([str(program.path), program.gpus, folder]) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            printed = [path.read_text(errors="replace") for path in sorted(Path(folder).glob("rank*.out"))]
        told = last_json("\n".join(printed))
        ended = json.loads(answer) if answer else {"code": -1}
        said = {} if told and not ended["code"] else {"said": "\n".join(printed)[-1500:]}
        return {**ended, "record": told, **said}

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)


# ------------------------------------------------------------------ under nsys


def command_of(program: Program) -> list[str]:
    """How a person starts it."""
    if program.gpus == 1:
        return [sys.executable, str(program.path)]
    ranks = f"--nproc-per-node={program.gpus}"
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", ranks, str(program.path)]


def recorder() -> tuple[str, ...]:
    """The options with which `labcode record` starts nsys."""
    from labcode.capture.script import OPTIONS

    return OPTIONS


class Recording:
    """A program under nsys. It has ended before nsys has: then the next one may start."""

    def __init__(self, program: Program, work: Path, nsys: str) -> None:
        from labcode.record.nsys import command

        self.program, self.folder = program, work / program.label
        self.folder.mkdir(parents=True)
        self.report = self.folder / "capture.nsys-rep"
        self.code_file = self.folder / "code"
        kept = self.folder / "tmp"
        kept.mkdir()
        out = str(self.folder / "program.out")
        told = f'"$@" >{out} 2>&1; code=$?; echo $code > {self.code_file}; exit $code'
        under = ["sh", "-c", told, "sh", *command_of(program)]
        words = command(nsys, recorder(), self.report.with_suffix(""), under)
        self.began = time.monotonic()
        with (self.folder / "nsys.log").open("wb") as log:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **environment(kept)},
                start_new_session=True,
            )
        self.program_s = 0.0

    def attend(self) -> None:
        """Wait until the program has ended, or nsys, or the time is up."""
        while self.process.poll() is None:
            if self.code_file.is_file() and self.code_file.stat().st_size:
                break
            if time.monotonic() - self.began > 2 * LIMIT_S:
                self.kill()
                break
            time.sleep(0.02)
        self.program_s = time.monotonic() - self.began

    def kill(self) -> None:
        """End nsys and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def result(self) -> dict[str, Any]:
        """How it ended and what it measured."""
        out = self.folder / "program.out"
        printed = out.read_text(errors="replace") if out.is_file() else ""
        code = self.code_file.read_text().strip() if self.code_file.is_file() else "none"
        told = last_json(printed)
        said = {} if told and code == "0" else {"said": printed[-1500:]}
        seconds = {"program_s": round(self.program_s, 2), "nsys_s": round(time.monotonic() - self.began, 2)}
        return {"code": code, "record": told, **seconds, **said}


def export_and_pack(folder: str, nsys: str, packed: str, label: str) -> dict[str, Any]:
    """In a process of its own: a report in; a scrubbed and compressed export, and what was seen, out."""
    os.nice(15)
    from labcode.capture import privacy, scan, tools
    from labcode.capture.scrub import compress, scrub_export
    from labcode.record.nsys import export

    place = Path(folder)
    report, raw, clean = (place / name for name in ("capture.nsys-rep", "raw.sqlite", "clean.sqlite"))
    log = (place / "nsys.log").read_text(errors="replace")
    if not report.is_file():
        return {"error": "no report", "log": log[-1500:]}
    began = time.monotonic()
    try:
        export(Path(nsys), report, raw, what=label, neutral=privacy.reduce)
        exported = time.monotonic()
        names = scrub_export(raw, clean).names
        scan.refuse_private(scan.texts_of(clean), names, f"{label}: something private is left", ValueError)
        scrubbed = time.monotonic()
        compress(clean, Path(packed))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:1500], "log": log[-800:]}
    ended = time.monotonic()
    sizes = {"report": report.stat().st_size, "raw": raw.stat().st_size, "xz": Path(packed).stat().st_size}
    warned = tools.warnings(log, clean)
    shutil.rmtree(place)
    times = {"export": exported - began, "scrub": scrubbed - exported, "compress": ended - scrubbed}
    return {"bytes": sizes, "seconds": {k: round(v, 2) for k, v in times.items()}, "warnings": warned}


# ------------------------------------------------------------------ all of it


class Driver:
    """Runs programs within a budget and writes down what came of each."""

    def __init__(self, out: Path, budget_s: float) -> None:
        self.out, self.began, self.budget_s = out, time.monotonic(), budget_s
        out.mkdir(parents=True, exist_ok=True)
        self.work = Path(tempfile.mkdtemp(prefix="cases-"))
        self.packed = self.work / "packed"
        self.packed.mkdir()
        self.log = (out / "run.log").open("a", buffering=1)
        self.results = (out / "results.jsonl").open("a", buffering=1)

    def left(self) -> float:
        """Seconds of the budget."""
        return self.budget_s - (time.monotonic() - self.began)

    def say(self, text: str) -> None:
        """A line on the terminal and in the log."""
        line = f"{time.monotonic() - self.began:6.1f} s  {text}"
        print(line, flush=True)
        self.log.write(line + "\n")

    def keep(self, kind: str, program: Program, what: dict[str, Any]) -> None:
        """A line of results."""
        self.results.write(
            json.dumps({"kind": kind, "case": program.case, "name": program.name, **what}) + "\n"
        )

    def clean(self, chosen: list[Program]) -> str:
        """All without a profiler; the case where the budget ended, '' at the end."""
        runner = Clean()
        for program in chosen:
            if self.left() < 20:
                return program.case
            try:
                what = runner.run(program)
            except (OSError, ValueError) as error:
                what = {"code": -1, "record": {}, "said": repr(error)}
                with contextlib.suppress(Exception):
                    runner.process.kill()
                runner = Clean()
            self.keep("clean", program, what)
            seconds = what["record"].get("seconds_per_iteration")
            shown = f"{1e3 * seconds:9.3f} ms" if seconds else "FAILED " + what.get("said", "")[-300:]
            self.say(f"clean {program.label}: {shown}, {what.get('wall_s', 0):.1f} s")
        runner.close()
        return ""

    def record(self, chosen: list[Program], nsys: str) -> str:
        """All under nsys; the case where the budget ended, '' at the end."""
        waiting: list[Recording] = []
        making: list[tuple[Program, dict[str, Any], Future[dict[str, Any]]]] = []
        with ProcessPoolExecutor(max_workers=6) as pool:

            def look() -> None:
                for one in [w for w in waiting if w.process.poll() is not None]:
                    waiting.remove(one)
                    what = one.result()
                    target = str(self.packed / f"{one.program.label}.sqlite.xz")
                    given = pool.submit(export_and_pack, str(one.folder), nsys, target, one.program.label)
                    making.append((one.program, what, given))
                for entry in [m for m in making if m[2].done()]:
                    making.remove(entry)
                    program, what, given = entry
                    made = given.result() if given.exception() is None else {"error": repr(given.exception())}
                    self.keep("nsys", program, {**what, "capture": made})
                    told = made.get("error") or f"{made['bytes']['xz'] / 1e3:,.0f} kB {made['seconds']}"
                    self.say(f"packed {program.label}: {told}")

            stopped = ""
            for program in chosen:
                while len(waiting) + len(making) >= PENDING and self.left() > 30:
                    look()
                    time.sleep(0.05)
                if self.left() < 30:
                    stopped = program.case
                    break
                one = Recording(program, self.work, nsys)
                one.attend()
                what = one.result()
                seconds = what["record"].get("seconds_per_iteration")
                shown = f"{1e3 * seconds:9.3f} ms" if seconds else "FAILED " + what.get("said", "")[-300:]
                self.say(f"nsys {program.label}: {shown}, program {one.program_s:.1f} s")
                waiting.append(one)
                look()
            last = time.monotonic() + max(self.left(), 10) + 10
            while (waiting or making) and time.monotonic() < last:
                look()
                time.sleep(0.05)
            for one in waiting:
                one.kill()
            for program, what, given in making:
                given.cancel()
                self.keep("nsys", program, {**what, "capture": {"error": "no time was left to pack it"}})
            self.pack()
            if waiting or making:
                for child in list(getattr(pool, "_processes", {}).values()):
                    child.kill()
        return stopped

    def pack(self) -> None:
        """The exports as one tar in pieces, the smallest first; what does not fit is named in the log."""
        files = sorted(self.packed.glob("*.sqlite.xz"), key=lambda path: path.stat().st_size)
        whole, used = self.work / "parts.tar", 0
        with tarfile.open(whole, "w") as tar:
            for path in files:
                size = path.stat().st_size + 2048
                if used + size > PIECE * PIECES - (1 << 16):
                    self.say(f"left out: {path.name}, {path.stat().st_size / 1e6:.1f} MB")
                    continue
                used += size
                tar.add(path, path.name)
        with whole.open("rb") as source:
            number = 0
            while piece := source.read(PIECE):
                (self.out / f"parts.tar.{number:02d}").write_bytes(piece)
                number += 1


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--budget", type=float, default=540.0, help="seconds")
    parser.add_argument("--phases", default="clean,nsys")
    parser.add_argument("--first", default="", help="the case to begin with, under nsys")
    parser.add_argument("--only", default="", help="cases, with commas between")
    parser.add_argument("--zygote", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.zygote:
        zygote()
        return
    if args.out is None:
        parser.error("say --out DIR")
    driver = Driver(args.out.resolve(), args.budget)
    try:
        from labcode.doctor.machine import machine_record

        (driver.out / "machine.json").write_text(json.dumps(machine_record()))
    except Exception as error:  # what was measured counts without it, too
        driver.say(f"machine.json: {error!r}")
    only = [name for name in args.only.split(",") if name]
    left = []
    if "clean" in args.phases and (stop := driver.clean(programs(args.gpus, "", only))):
        left.append(f"clean from {stop}")
    if "nsys" in args.phases:
        from labcode.tools import require_nsys

        stop = driver.record(programs(args.gpus, args.first, only), str(require_nsys()))
        left += [f"--phases nsys --first {stop}"] if stop else []
    driver.say("left to do: " + ("; ".join(left) or "nothing"))
    shutil.rmtree(driver.work, ignore_errors=True)


if __name__ == "__main__":
    main()
