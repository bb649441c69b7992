"""Stand-ins for what a GPU machine has: an nsys, a profiled program, and an export full of private things."""

import json
import os
import time
from pathlib import Path

from tests.support import exports as e

HERE = Path(__file__).resolve().parents[2]
HOST = "private-host-7"
WINDOW = (1_000, 2_000)

FAKE_NSYS = f"""
import os, pathlib, subprocess, sys, time
sys.path.insert(0, {str(HERE)!r})
mode = os.environ.get("FAKE_NSYS", "")
verb, words = sys.argv[1], sys.argv[2:]
if verb == "--version":
    print("NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0")
    sys.exit(0)
out = pathlib.Path(next(w for w in words if w.startswith("--output=")).removeprefix("--output="))
if verb == "profile":
    if mode == "no-permission":
        print("FATAL ERROR: Permission denied: the profiler may not trace this process", file=sys.stderr)
        sys.exit(1)
    command = words[next(i for i, w in enumerate(words) if not w.startswith("-")):]
    code = subprocess.run(command).returncode
    if mode == "hang":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        time.sleep(600)
    if mode == "importer":
        out.with_suffix(".qdstrm").write_bytes(b"recording")
        print("Importer error status: An unknown error occurred.")
        sys.exit(1)
    if mode == "silent":
        sys.exit(1)
    print("WARNING: CPU IP/backtrace sampling not supported, see /home/someone/notes.txt")
    out.with_name(out.name + ".nsys-rep").write_bytes(b"report")
    sys.exit(code)
if verb == "export":
    from tests.capture.fakes import held, log
    log("begin export")
    held("export")
    if mode == "slow-export":
        time.sleep(0.4)
    if mode == "export-hangs":
        time.sleep(600)
    log("end export")
    if mode == "full-disk":
        packed = out.parent.parent / (out.name.removesuffix(".raw.sqlite") + ".nsys.xz")
        packed.symlink_to("/dev/full")
    if mode == "export-fails":
        print("ERROR: cannot read the report", file=sys.stderr)
        sys.exit(1)
    if mode == "steady":
        from tests.capture.test_steady import training
        training(out)
        sys.exit(0)
    from tests.capture import fakes
    fakes.private_export(out, window=mode != "no-window")
    sys.exit(0)
sys.exit(3)
"""

PROGRAM = f'''"""A program under test."""
import argparse, json, os, signal, subprocess, sys, time
sys.path.insert(0, {str(HERE)!r})
from tests.capture.fakes import begin, log
del sys.path[0]
'''
PROGRAM += """
options = argparse.ArgumentParser()
options.add_argument("--variant", default="record")
options.add_argument("--json")
options.add_argument("--gpus")
given = options.parse_args()
mode = os.environ.get("FAKE_PROGRAM", "")
begin(given.variant)
log(f"end {given.variant}")
if mode == "hang":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    open(os.environ["FAKE_PIDS"], "w").write(f"{os.getpid()} {child.pid}")
    time.sleep(600)
if mode == "crash" and given.variant == os.environ.get("FAKE_VARIANT", given.variant):
    print(f"{sys.argv[0]}: it went wrong", file=sys.stderr)
    sys.exit(2)
if mode == "interrupt" and given.variant == "improved":
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(600)
record = {
    "program": "program",
    "variant": given.variant,
    "parameters": {"gpus": given.gpus, "input": "/home/someone/data/input.bin"},
    "results": {"time_ms": [1.0, 1.5]},
    "checks": {"sum": {"passed": mode != "check", "detail": "0.5 instead of 1"}},
    "gpu": {},
}
if mode != "no-record":
    open(given.json, "w").write("{" if mode == "bad-record" else json.dumps(record))
sys.exit(1 if mode == "check" else 0)
"""


def log(what: str) -> None:
    """Add a line to the file that tests look into, if one is named."""
    if "FAKE_LOG" in os.environ:
        with open(os.environ["FAKE_LOG"], "a") as file:
            file.write(f"{time.monotonic()} {what}\n")


def begin(variant: str) -> None:
    """A program begins, and is held as often as it is named: ``one 1`` the first time."""
    log(f"begin {variant} on {os.environ.get('CUDA_VISIBLE_DEVICES')}")
    if "FAKE_LOG" in os.environ:
        held(f"{variant} {Path(os.environ['FAKE_LOG']).read_text().count(f' begin {variant} on ')}")


def held(name: str) -> None:
    """Go on when the log has as many lines of a kind as FAKE_WAITS says, or after ten minutes."""
    line, number = json.loads(os.environ.get("FAKE_WAITS", "{}")).get(name, ("", 0))
    began = time.monotonic()
    while number and time.monotonic() - began < 600:
        if Path(os.environ["FAKE_LOG"]).read_text().count(f" {line}\n") >= number:
            break
        time.sleep(0.01)


def private_export(path: Path, *, window: bool = True) -> Path:
    """An export of process 100 with events before, in and after a window, and much that is private."""
    first, last = WINDOW
    e.make_export(
        path,
        kernels=[
            e.kernel(500, 600, "warm_up(int)", correlation=1),
            e.kernel(1_100, 1_200, "work<int>(int*)", correlation=2),
            e.kernel(2_500, 2_600, "tear_down(int)", correlation=3),
        ],
        memcpys=[e.memcpy(1_300, 1_400, correlation=4)],
        api=[
            e.call(400, 410, correlation=1),
            e.call(900, 910, correlation=2),  # before the window, but its kernel is inside
            e.call(1_250, 1_260, "cudaMemcpyAsync_v3020", correlation=4),
            e.call(1_500, 1_600, "cudaDeviceSynchronize_v3020", correlation=5),
            e.call(2_400, 2_410, correlation=3),
        ],
        nvtx=[
            e.domain(1, "NCCL"),
            e.push_pop(300, 700, "warm-up"),
            *([e.push_pop(first, last, "lab:measured", registered=True)] if window else []),
            e.push_pop(950, 1_050, "across the edge"),
            e.push_pop(1_100, 1_150, "file /home/someone/project/train.py", domain=1),
            e.push_pop(1_900, None, "left open"),
            e.push_pop(2_300, 2_400, "afterwards"),
            e.mark(100, "early"),
            e.mark(1_700, "inside"),
        ],
        osrt=[e.osrt(1_000, 1_010, "read"), e.osrt(5_000, 5_010, "late_write")],
        threads=[e.thread(100, 100, "python3"), e.thread(7, 7, "secret_daemon")],
        processes=[e.process(100, "/home/someone/venv/bin/python3"), e.process(7, "secret_daemon")],
        diagnostics=[
            e.diagnostic("Not all CUDA events were collected, see /tmp/nvidia/log.txt"),
            e.diagnostic("All is well", severity=1),
            e.diagnostic("about another process", pid=7),
        ],
        overheads=[e.overhead(1_100, 1_101), e.overhead(1_100, 1_101, "other's flush", pid=7)],
        extra_sql=[
            "CREATE TABLE IF NOT EXISTS ENUM_DIAGNOSTIC_SEVERITY_LEVEL "
            "(id INTEGER PRIMARY KEY, name TEXT, label TEXT)",
            "INSERT OR IGNORE INTO ENUM_DIAGNOSTIC_SEVERITY_LEVEL "
            "VALUES (1, 'Info', 'Info'), (2, 'Warning', 'Warning')",
            "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT)",
            "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT', 'HOME=\"/home/someone\"')",
            "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT)",
            f"INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', '{HOST}')",
            f"INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_HOST', '{HOST}'), ('EXPORT_USER', 'someone')",
            "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_INPUT_PATH_ABS', '/home/someone/a.nsys-rep')",
            "CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER)",
            "INSERT INTO StringIds VALUES (9001, 'PATH=/usr/bin\x01HOME=/home/someone')",
            "INSERT INTO StringIds VALUES (9002, 'password: hunter2')",
            "INSERT INTO ProcessStreams VALUES (281474976710656, 9001, 9002)",
            "CREATE TABLE ANALYSIS_FILE (id INTEGER, filename TEXT, content TEXT)",
            "CREATE TABLE SOMETHING_NEW (text TEXT)",
            "INSERT INTO SOMETHING_NEW VALUES ('unknown, so not kept')",
        ],
    )
    return path
