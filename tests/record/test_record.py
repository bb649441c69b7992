"""`labcode record`: how a program is recorded, what it leaves, and what it ends with."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labcode import reports, tools
from labcode.analysis.timeline.host import host_lines
from labcode.errors import LabError, ToolError
from labcode.record import command, traced
from labcode.record.attend import Recorded
from tests.support import exports as x
from tests.support.command import labcode
from tests.support.programs import python_program

TORCH = """
import contextlib, json, sys, types
class profile:
    def __init__(self, activities, record_shapes, with_stack): self.said, self.more = [], {}
    def start(self): self.said.append("start")
    def stop(self): self.said.append("stop")
    def add_metadata_json(self, key, text): self.more[key] = json.loads(text)
    def export_chrome_trace(self, path):
        import gzip
        event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
        made = {"schemaVersion": 1, "traceEvents": [event], **self.more}
        with gzip.open(path, "wt") as f: json.dump(made, f)
class ProfilerActivity: CPU, CUDA = "cpu", "cuda"
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program, a made-up PyTorch and no nsys."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "class cuda:\n    is_available = staticmethod(lambda: False)\n"
        "def get_num_threads():\n    import os\n    return len(os.sched_getaffinity(0))\n"
    )
    (tmp_path / "torch" / "profiler.py").write_text(TORCH)
    (tmp_path / "train.py").write_text(
        "import sys, json\n"
        "open('seen.json', 'w').write(json.dumps([__name__, sys.argv, sys.path[0]]))\n"
        "print('hello')\n"
        "if sys.argv[1:] == ['--crash']: sys.exit(7)\n"
        "if sys.argv[1:] == ['--raise']: raise RuntimeError('boom')\n"
        "if sys.argv[1:] == ['--gone']: import os; os._exit(9)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(command, "find_nsys", lambda: None)
    return tmp_path


def record(
    work: Path, *words: str, options: tuple[str, ...] = ("-o", "run.md")
) -> subprocess.CompletedProcess[str]:
    return labcode("record", *options, "--", sys.executable, *words, cwd=work)


def test_a_program_runs_as_ever_and_leaves_a_trace_and_a_report(work: Path) -> None:
    done = record(work, "train.py", "--lr", "1")
    told, *files = done.stderr.splitlines()
    assert (done.returncode, files) == (0, ["run.md", "run.trace.json.gz"])
    assert told.startswith("No GPU in use. The operators with the most time of their own: aten::mm ")
    assert json.loads((work / "seen.json").read_text()) == ["__main__", ["train.py", "--lr", "1"], str(work)]
    trace = json.loads(gzip.decompress((work / "run.trace.json.gz").read_bytes()))
    assert trace["traceEvents"][0]["name"] == "aten::mm"
    cores = len(os.sched_getaffinity(0))
    assert trace["computing"] == {"threads": cores, "cores": cores}
    assert "torch.profiler" in (work / "run.md").read_text()


BUSY = """import time


def work(until):
    while time.perf_counter() < until:
        sum(range(500))


def rest():
    time.sleep(0.4)


work(time.perf_counter() + 0.6)
rest()
"""


def test_where_no_gpu_is_stacks_are_looked_at_now_and_then(work: Path) -> None:
    (work / "train.py").write_text(BUSY)
    assert record(work, "train.py").returncode == 0
    with reports.open(work / "run.trace.json.gz") as report:
        table = host_lines(report)
        most = report.metadata()["samples"]["threads"]
    found = {(where, calls): share for where, calls, _, share in table.itertuples(index=False, name=None)}
    assert found["rest, train.py:10", "sleep"] > 0.2
    busy = sum(
        share for (where, _), share in found.items() if where in ("work, train.py:5", "work, train.py:6")
    )
    assert busy > 0.3 and sum(found.values()) == pytest.approx(1, abs=0.01)
    assert all(len(one["at"]) < 1_000 for one in most)


def test_of_many_looks_every_second_one_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced.Stacks, "MOST", 20)
    usual_s = sys.getswitchinterval()
    looking = traced.Stacks()
    looking.start()
    time.sleep(0.5)
    made = json.loads(looking.end())
    mine = next(one for one in made["threads"] if one["tid"] == os.getpid())
    assert 2 <= len(mine["at"]) <= 20 and sum(mine["at"][1:]) > 100_000 and min(mine["at"]) >= 0
    assert sys.getswitchinterval() == usual_s


def test_a_report_that_cannot_be_made_leaves_the_recording(work: Path) -> None:
    (work / "torch" / "profiler.py").write_text(TORCH.replace("json.dump(made, f)", "f.write('no trace')"))
    done = record(work, "train.py")
    assert done.returncode == 2 and (work / "run.trace.json.gz").is_file() and not (work / "run.md").exists()
    assert "run.trace.json.gz" in done.stderr.splitlines() and "not JSON" in done.stderr


def test_a_module_is_run_as_one(work: Path) -> None:
    assert record(work, "-u", "-m", "train", "-x").returncode == 0
    name, argv, _ = json.loads((work / "seen.json").read_text())
    assert name == "__main__" and Path(argv[0]).name == "train.py" and argv[1:] == ["-x"]


@pytest.mark.parametrize(("how", "code"), [("--crash", 7), ("--raise", 1)])
def test_a_program_that_crashes_is_shown_as_far_as_it_went(work: Path, how: str, code: int) -> None:
    done = record(work, "train.py", how)
    assert done.returncode == code and f"labcode: the program ended with exit code {code}" in done.stderr
    assert (work / "run.md").is_file() and (work / "run.trace.json.gz").is_file()


def test_a_program_that_leaves_nothing_says_so_and_keeps_its_code(work: Path) -> None:
    done = record(work, "train.py", "--gone")
    assert done.returncode == 9 and not (work / "run.md").exists()
    assert "note: torch: the program ended with exit code 9 before anything was recorded" in done.stderr


def test_ctrl_c_ends_the_program_and_what_was_recorded_is_kept(work: Path) -> None:
    (work / "train.py").write_text("import time\nopen('began', 'w')\ntime.sleep(60)\n")
    words = ["record", "-o", "run.md", "--", sys.executable, "train.py"]
    process = subprocess.Popen(
        [sys.executable, "-m", "labcode", *words],
        cwd=work,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # no terminal sends the signal to all
    )
    for _ in range(600):
        if (work / "began").exists():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130 and "labcode: the program ended with exit code 130" in err
    assert (work / "run.trace.json.gz").is_file() and (work / "run.md").is_file()


def test_what_is_there_is_not_overwritten_unless_told(work: Path) -> None:
    (work / "run.md").write_text("mine")
    done = record(work, "train.py")
    assert done.returncode == 2 and "run.md: there already" in done.stderr and "--force" in done.stderr
    assert (work / "run.md").read_text() == "mine" and not (work / "seen.json").exists()
    assert record(work, "train.py", options=("-o", "run.md", "--force")).returncode == 0


NSYS = """
import os, shutil, signal, subprocess, sys
if sys.argv[1] == "profile":
    print("[1/1] [====25%   ] run.nsys-rep")
    out = next(w for w in sys.argv if w.startswith("--output=")).removeprefix("--output=")
    if "--python-sampling=true" in sys.argv and "old" in sys.argv:
        sys.exit("unrecognised option '--python-sampling'")
    if "broken" in sys.argv: sys.exit("Importer error")
    if "early" in sys.argv: open(out + ".nsys-rep", "w").write("x")
    if "left" in sys.argv and "--wait=primary" not in sys.argv: sys.exit("waits for what was left behind")
    if "three" in sys.argv: sys.exit(3)
    if "crash" in sys.argv: os.kill(os.getpid(), signal.SIGSEGV)
    program = subprocess.Popen(sys.argv[sys.argv.index("bash"):], close_fds=False, start_new_session=True)
    limit = [float(w.removeprefix("--duration=")) for w in sys.argv if w.startswith("--duration=")]
    try: program.wait(*limit)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGTERM)
        open(out + ".nsys-rep", "w").write("x")
        sys.exit(143)
    if "late" in sys.argv: os.kill(os.getpid(), signal.SIGSEGV)
    if "silent" not in sys.argv: open(out + ".nsys-rep", "w").write("x")
    sys.exit(0)
shutil.copy({export!r}, next(w for w in sys.argv if w.startswith("--output=")).removeprefix("--output="))
"""


@pytest.fixture
def nsys(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for nsys, which words of the program make old, silent or broken."""
    export = x.make_export(work / "made.sqlite", kernels=[x.kernel(0, 10)])
    monkeypatch.setenv("LABCODE_NSYS", str(python_program(work / "nsys", NSYS.format(export=str(export)))))
    monkeypatch.setattr(command, "find_nsys", tools.find_nsys)
    return work


def test_nsys_records_the_program_and_its_code_not_that_of_nsys_counts(nsys: Path) -> None:
    done = labcode("record", "-o", "run.json", "--", "sh", "-c", "exit 5", cwd=nsys)
    assert done.returncode == 5 and json.loads((nsys / "run.json").read_text())["title"] == "sh"
    assert (nsys / "run.sqlite").is_file() and not (nsys / "run.nsys-rep").exists()
    done = labcode("record", "-o", "a.json", "--", "sh", "-c", "exit 0", "silent", cwd=nsys)
    assert done.returncode == 2 and "a: nsys made no report" in done.stderr and not (nsys / "a.json").exists()
    done = labcode("record", "-o", "b.json", "--", "no-such-program", cwd=nsys)
    assert done.returncode == 2 and "no-such-program: not found; check the command after --" in done.stderr


def test_what_nsys_says_goes_to_a_log_and_what_the_program_says_does_not(nsys: Path) -> None:
    words = [sys.executable, "-m", "labcode", "record", "-o", "run.json", "--"]
    words += ["sh", "-c", "echo out; echo err >&2"]
    done = subprocess.run(words, cwd=nsys, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("out\n") and "err\n" in done.stderr
    assert "25%" not in done.stdout + done.stderr
    assert "25%" in (nsys / "run.nsys.log").read_text() and "out" not in (nsys / "run.nsys.log").read_text()


def test_an_nsys_without_stacks_records_without_lines_and_says_so(nsys: Path) -> None:
    done = labcode("record", "-o", "run.json", "--", "sh", "-c", "exit 0", "old", cwd=nsys)
    said = "nsys: without lines of the program, for it said: unrecognised option '--python-sampling'"
    assert done.returncode == 0 and said in done.stderr and (nsys / "run.json").is_file()
    done = labcode("record", "-o", "b.json", "--no-lines", "--", "sh", "-c", "exit 0", "old", cwd=nsys)
    assert done.returncode == 0 and "without lines" not in done.stderr


def test_a_failure_of_nsys_is_not_told_as_one_of_the_program(nsys: Path) -> None:
    done = labcode("record", "-o", "run.json", "--", "sh", "-c", "exit 0", "broken", cwd=nsys)
    said = "run: nsys made no report and did not start the program; its last words: Importer error"
    assert done.returncode == 2 and said in done.stderr and "ended with exit code" not in done.stderr


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("three", "made no report and did not start the program; its last words: nothing (failed with"),
        ("crash", "made no report and did not start the program; its last words: nothing (ended by SIGSEGV)"),
        ("early three", "failed and did not start the program; its last words: nothing (failed with"),
        ("early crash", "failed and did not start the program; its last words: nothing (ended by SIGSEGV)"),
        ("late", "made no report; its last words: nothing (ended by SIGSEGV)"),
    ],
)
def test_an_nsys_that_ends_by_itself_is_blamed_not_the_program(nsys: Path, how: str, said: str) -> None:
    done = labcode("record", "-o", "run.json", "--", "sh", "-c", "touch ran", *how.split(), cwd=nsys)
    assert done.returncode == 2 and f"run: nsys {said}" in done.stderr
    assert "the program ended" not in done.stderr and not list(nsys.glob("run.*"))
    assert (nsys / "ran").exists() == (how == "late")


def test_processes_that_a_program_leaves_behind_are_not_waited_for(nsys: Path) -> None:
    done = labcode("record", "-o", "run.json", "--", "sh", "-c", "exit 0", "left", cwd=nsys)
    assert done.returncode == 0 and (nsys / "run.json").is_file()


def test_at_the_limit_a_program_is_ended_and_what_was_recorded_is_kept(nsys: Path) -> None:
    said = "ended at the time limit of 0.3 s (--limit); what was recorded until then is judged"
    words = ["record", "--limit", "0.3s", "--tool"]
    done = labcode(*words, "nsys", "-o", "run.json", "--", "sh", "-c", "sleep 60", cwd=nsys)
    assert done.returncode == 124 and said in done.stderr and (nsys / "run.json").is_file()
    (nsys / "train.py").write_text("import time\ntime.sleep(60)\n")
    done = labcode(*words, "torch", "-o", "a.json", "--", sys.executable, "train.py", cwd=nsys)
    kept = (nsys / "a.json").is_file()  # on a slow machine Python may not have begun
    assert done.returncode == 124 and (said if kept else "before anything was recorded") in done.stderr
    done = labcode("record", "--limit", "soon", "--", "true", cwd=nsys)
    assert done.returncode == 2 and "--limit soon: give a time with its unit" in done.stderr


def test_a_recording_that_takes_long_says_what_to_do(
    nsys: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("labcode.record.attend.SLOW_S", 0.1)
    command.record(["sleep", "0.5"], nsys, "run", tools=["nsys"])
    assert capfd.readouterr().err.count("Ctrl-C ends it and keeps what was recorded") == 1


def test_both_tools_run_the_program_twice(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def fake(words: list[str], folder: Path, name: str, *, lines: bool, limit_s: float | None) -> Recorded:
        ran.append(name)
        (folder / f"{name}.{len(ran)}").touch()
        return Recorded(folder / f"{name}.{len(ran)}", len(ran) - 1, ("said",) * (len(ran) == 1))

    monkeypatch.setattr(command, "_RECORD", {"nsys": fake, "torch": fake})
    monkeypatch.setattr(command.nsys, "export", lambda *a, **k: None)
    monkeypatch.setenv("LABCODE_NSYS", sys.executable)
    found = command.record(["a"], work, "run", tools=["nsys", "torch"])
    assert len(found.files) == 2 and found.code == 1 and found.notes == ("said",)


def test_what_cannot_be_recorded_is_refused_in_words(work: Path) -> None:
    for words in (["./a.out"], [sys.executable, "-c", "1"], [sys.executable], ["torchrun", "a.py"]):
        with pytest.raises(ToolError, match=r"not a program of Python, so torch\.profiler cannot record it"):
            command.tools_for(words, [])
    with pytest.raises(LabError, match="--tool ncu: choose nsys or torch"):
        command.tools_for(["a"], ["ncu"])
    (work / "bin").mkdir()
    python = work / "bin" / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(ToolError, match=r"nsys: not found, and .*: has no PyTorch; install it, or use"):
        command.tools_for([str(python), "train.py"], [])


def test_a_report_that_is_none_is_refused_before_the_program_runs(work: Path) -> None:
    done = record(work, "train.py", options=("-o", "run.pdf"))
    assert done.returncode == 2 and "run.pdf: no kind of report" in done.stderr
    assert not (work / "seen.json").exists()
