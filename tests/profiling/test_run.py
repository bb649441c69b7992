"""Runs for real, without GPUs: by programs that stand for nsys and srun, by torchrun, by torch.profiler."""

import gzip
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from labcode import tools
from labcode.profiling import run
from labcode.profiling.plan import Plan, Wishes, make
from labcode.record import attend
from tests.support.command import labcode
from tests.support.processes import none_runs
from tests.support.programs import program

REAL_NSYS = tools.find_nsys()
NSYS = """
shift
while [ "${1#--}" != "$1" ]; do case $1 in --output=*) to=${1#*=};; esac; shift; done
"$@" & pid=$!
trap 'kill -TERM $pid' TERM INT
wait $pid; code=$?
while kill -0 $pid 2>/dev/null; do wait $pid; code=$?; done
echo report >"$to.nsys-rep"
exit $code
"""
SRUN = """
while [ "${1#--}" != "$1" ]; do shift; done
"$@" & one=$!
"$@" & two=$!
wait $one; code=$?
wait $two || code=$?
exit $code
"""
TRAIN = """
import sys, torch
model = torch.nn.Linear(8, 8)
if "--alone" not in sys.argv:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
if "--alone" not in sys.argv:
    torch.distributed.destroy_process_group()
"""


@pytest.fixture(autouse=True)
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"nsys": NSYS, "srun": SRUN, "scontrol": "echo 127.0.0.1"}.items():
        program(Path(name), text, "/bin/bash")
    Path("train.py").write_text(TRAIN)
    monkeypatch.setenv("LABCODE_NSYS", str(tmp_path / "nsys"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES", run.PROFILED):
        monkeypatch.delenv(name, raising=False)


def profiled(*words: str) -> subprocess.CompletedProcess[str]:
    return labcode("profile", "--cpu", "--no-diagnosis", *words)


def named(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def test_a_script_that_works_and_one_that_fails() -> None:
    Path("ok.py").write_text("print('hello')\n")
    result = profiled("ok.py")
    assert result.returncode == 0 and named("ok-nsys") == ["ok.nsys-rep"]
    assert (
        "labcode profile: ok by nsys, " in result.stderr and "captured: ok-nsys/ok.nsys-rep" in result.stderr
    )
    again = profiled("ok.py")
    assert again.returncode == 2 and "ok.nsys-rep lies there already; overwrite with --force" in again.stderr
    Path("ok.py").write_text("import sys; sys.exit(3)\n")
    failed = profiled("--force", "ok.py")
    assert failed.returncode == 3 and named("ok-nsys") == ["ok.partial.nsys-rep"]
    assert "failed with exit code 3" in failed.stderr and "(partial: " in failed.stderr


@pytest.mark.parametrize(("text", "how"), [("exit 3", "failed with exit code 3"), ("kill -9 $$", "ended")])
def test_a_tool_that_fails_by_itself_is_blamed_and_the_script_is_not(text: str, how: str) -> None:
    Path("nsys").write_text(f"#!/bin/sh\n{text}\n")
    Path("ok.py").write_text("open('ran', 'w')\n")
    result = profiled("ok.py")
    assert result.returncode == 2 and f" s: nsys {how}" in result.stderr and not Path("ran").exists()
    assert "and did not start the program; see above what it said" in result.stderr
    result = profiled("--gpus", "2", "ok.py")
    assert result.returncode == 2 and f" s: nsys {how}" in result.stderr
    assert "did not start the program" in result.stderr


def test_options_behind_the_script_go_to_it_and_that_is_said() -> None:
    Path("ok.py").write_text("import sys\nopen('seen', 'w').write(' '.join(sys.argv[1:]))\n")
    result = profiled("ok.py", "--dry-run", "--lr=1", "--gpus=2", "-o", "x")
    said = "note: --dry-run, --gpus=2 after ok.py goes to it; options of labcode profile come before it\n"
    assert result.returncode == 0 and result.stderr.startswith(said)
    assert Path("seen").read_text() == "--dry-run --lr=1 --gpus=2 -o x"
    assert "note: " not in profiled("--force", "ok.py", "--lr=1").stderr


def test_nothing_was_captured() -> None:
    Path("nsys").write_text("#!/bin/sh\nexit 0\n")
    result = profiled("train.py")
    assert result.returncode == 2 and "1 of 1 captures are missing: see above what nsys said" in result.stderr


def test_a_folder_that_is_a_file() -> None:
    result = profiled("-o", "nsys", "train.py")
    assert (
        result.returncode == 2 and "nsys: a file, not a folder; name a folder with --output" in result.stderr
    )


def test_the_time_limit_ends_the_program_and_keeps_the_capture() -> None:
    result = profiled("--limit", "300ms", "sleep", "60")
    assert result.returncode == 124 and named("sleep-nsys") == ["sleep.partial.nsys-rep"]
    assert "ended at the time limit of 0.3 s (--limit)" in result.stderr


def test_a_profiler_that_does_not_end_is_killed_with_all_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend, "GRACE_S", 0.2)
    monkeypatch.setattr(tools, "_GRACE_S", 0.2)
    Path("nsys").write_text("#!/bin/bash\ntrap '' TERM\nsetsid sleep 61 &\nwhile :; do sleep 0.1; done\n")
    result = profiled("--limit", "200ms", "sleep", "60")
    assert result.returncode == 124 and "1 of 1 captures are missing" in result.stderr
    assert none_runs(["sleep", "61"])


def test_ctrl_c_reaches_the_program_and_keeps_the_capture() -> None:
    program(Path("work"), "touch began\nexec sleep 60")
    words = ("--cpu", "--no-diagnosis", "-o", "out", "work")
    process = subprocess.Popen(
        [sys.executable, "-m", "labcode", "profile", *words],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # no terminal sends the signal to all
    )
    while not Path("began").exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert (
        process.returncode == 130 and "ended by SIGINT" in err and named("out") == ["work.partial.nsys-rep"]
    )


def test_a_rank_that_dies_ends_the_others_and_is_named() -> None:
    Path("two.py").write_text(
        "import os, sys, time\n"
        "if os.environ['RANK'] == '0':\n"
        "    open('began', 'w').close()\n"
        "    time.sleep(6000)\n"
        "while not os.path.exists('began'):\n"
        "    time.sleep(0.05)\n"
        "sys.exit(7)\n"
    )
    result = profiled("--gpus", "2", "two.py")
    assert result.returncode == 7
    assert "two by nsys on 2 ranks, " in result.stderr
    assert "rank 1 was the first to end, after " in result.stderr
    assert "ended by the launcher for it: rank 0" in result.stderr
    assert named("two-nsys") == ["two.rank0.partial.nsys-rep", "two.rank1.partial.nsys-rep"]


def test_ranks_without_the_meter_run_the_program_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The meter's words end in a “--” of their own."""
    Path("two.py").write_text("import os; print('rank', os.environ['RANK'])\n")
    plan = make(Wishes("two.py", tool="energy", gpus=2, cpu=True), gpus=2)
    words = plan.command[plan.command.index("labcode.profiling.rank") + 1 :]
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "1")
    done = subprocess.run(
        [sys.executable, "-m", "labcode.profiling.rank", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout == "rank 1\n", done.stderr


def test_what_is_said_of_ranks() -> None:
    ends = (
        run.End(0, 1, 0, 20.5, 4.0),
        run.End(1, 137, 0, 20.0, 3.5),
        run.End(2, 143, signal.SIGTERM, 19.0, 4.0),
    )
    outcome = run.Outcome(1, 5.0, "", ends)
    assert outcome.exit_code == 137
    text = io.StringIO()
    run.tell(Plan("multi-gpu", "nsys", (), Path(), "x", 4, 4, Path()), outcome, [], None, text)
    assert text.getvalue().splitlines() == [
        "labcode profile: x by nsys on 4 ranks, 5.0 s: failed",
        "rank 1 was the first to end, after 3.5 s: ended by SIGKILL (the host ran out of memory?)",
        "ended by the launcher for it: rank 2",
        "failed after it: rank 0, failed with exit code 1",
        "killed without a word: rank 3",
        "4 of 4 captures are missing: see above what nsys said",
    ]
    node = run.Outcome(0, 5.0, "", (run.End(3, 0, 0, 20.0, 4.0),))
    text = io.StringIO()
    run.tell(Plan("multi-node", "ncu", (), Path(), "x", 1, 0, Path(), True), node, [], None, text)
    assert text.getvalue() == "labcode profile: x by ncu on this node, rank 3 of the run, 5.0 s: done\n"


def trace(path: str) -> dict[str, Any]:
    with gzip.open(path) as stream:
        found: dict[str, Any] = json.load(stream)
        return found


def steps_of(path: str) -> int:
    return sum(
        str(e.get("name")).startswith("ProfilerStep#") for e in trace(path)["traceEvents"] if e["ph"] == "X"
    )


def test_two_nodes_that_srun_starts_leave_a_trace_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", str(free_port(range(20000, 30000)) - 20000))
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    words = ("--mode", "multi-node", "--gpus", "1", "--tool", "torch", "--steps", "2", "--limit", "1h")
    result = labcode("profile", *words, "train.py", "6")
    assert result.returncode == 0, result.stderr
    assert named("train-torch") == ["train.rank0.trace.json.gz", "train.rank1.trace.json.gz"]
    for rank in (0, 1):
        found = trace(f"train-torch/train.rank{rank}.trace.json.gz")
        assert found["distributedInfo"]["rank"] == rank and found["distributedInfo"]["world_size"] == 2
        assert steps_of(f"train-torch/train.rank{rank}.trace.json.gz") == 2
    assert "labcode diagnose train-torch\n" in result.stderr
    assert "not found: " in result.stderr and "no-steps" in result.stderr.split("not found: ")[1]


def free_port(among: range) -> int:
    for port in among:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError("no free port")


def test_a_port_in_use_by_something_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        result = profiled("--nodes", "2", "--rendezvous", place, "train.py")
    assert result.returncode == 2
    assert (
        f"--rendezvous {place}: the port is in use by another program; choose another port" in result.stderr
    )
    run.refuse_taken_port(place)  # free again
    run.refuse_taken_port("203.0.113.1:29500")  # of another machine


def test_a_store_of_pytorch_in_use_is_another_node_of_the_run() -> None:
    Path("store.py").write_text(
        "import time, torch\nstore = torch.distributed.TCPStore('127.0.0.1', 0, is_master=True)\n"
        "print(store.port, flush=True)\ntime.sleep(60)\n"
    )
    store = subprocess.Popen([sys.executable, "store.py"], stdout=subprocess.PIPE, text=True)
    assert store.stdout is not None
    run.refuse_taken_port(f"127.0.0.1:{int(store.stdout.readline())}")
    store.terminate()
    store.communicate()


def test_a_window_by_time_and_one_that_the_script_is_too_short_for() -> None:
    result = profiled("--tool", "torch", "--delay", "0s", "train.py", "2", "--alone")
    assert result.returncode == 0, result.stderr
    names = {event.get("name") for event in trace("train-torch/train.trace.json.gz")["traceEvents"]}
    assert "aten::addmm" in names or "aten::linear" in names
    result = profiled("--tool", "torch", "--force", "train.py", "4", "--alone")
    assert result.returncode == 0 and named("train-torch") == ["train.partial.trace.json.gz"]
    assert steps_of("train-torch/train.partial.trace.json.gz") >= 1


def test_nothing_recorded_is_said_and_why(capfd: pytest.CaptureFixture[str]) -> None:
    result = profiled("--tool", "torch", "train.py", "2", "--alone")
    assert result.returncode == 2 and "1 of 1 captures are missing" in result.stderr
    assert "the script's optimizer took 2 steps, and steps 4 to 8 were asked for" in capfd.readouterr().err
    Path("train.py").write_text(
        f"import torch\nwith torch.profiler.profile() as p:\n    {TRAIN.splitlines()[2]}\n"
    )
    result = profiled("--tool", "torch", "--delay", "0s", "train.py")
    assert result.returncode == 2
    assert "the script uses torch.profiler itself, and profilers do not nest" in capfd.readouterr().err


@pytest.mark.skipif(REAL_NSYS is None, reason="not run: needs nsys")
def test_the_real_nsys_on_two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABCODE_NSYS", str(REAL_NSYS))
    Path("two.py").write_text("print('hello')\n")
    result = profiled("--gpus", "2", "two.py")
    assert result.returncode == 0, result.stderr
    assert named("two-nsys") == ["two.rank0.nsys-rep", "two.rank1.nsys-rep"]
