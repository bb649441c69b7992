"""Running and finding external programs."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from labcode import tools
from labcode.errors import ToolError
from labcode.tools import find_ncu, find_nsys, inside_nsight_compute, libdw_available, require_nsys, run_tool
from tests.support.processes import gone
from tests.support.programs import program

SAYS = "echo tool 1.2.3"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_exit_code_and_environment_come_back(tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['A'], os.getcwd()); print('oh', file=sys.stderr); sys.exit(3)"
    result = run_tool(python(code), 600, cwd=tmp_path, env={"A": "b"})
    assert (result.returncode, result.stdout, result.stderr) == (3, f"b {tmp_path}\n", "oh\n")
    assert result.last_line() == "oh" and 0 < result.wall_s < 600


def test_a_program_that_takes_too_long_is_stopped_with_its_detached_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    child = "import time; time.sleep(600)"
    code = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True)
open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
print("working", flush=True)
time.sleep(600)
"""
    with pytest.raises(ToolError, match=r"my job: not done after 3 s, .* its last line: working"):
        run_tool(python(code), 3, what="my job")
    assert all(gone(int(pid)) for pid in pids.read_text().split())


def test_a_daemon_that_keeps_the_output_open_is_not_waited_for() -> None:
    code = "import subprocess as s; print(s.Popen(['sleep', '900'], start_new_session=True).pid)"
    os.kill(int(run_tool(python(code), 600).stdout), signal.SIGKILL)  # it is there still


def test_what_did_not_fit_on_the_disk_is_not_taken_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("r+b", buffering=0) as full:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda: full)
        with pytest.raises(OSError, match="No space left") as raised:
            run_tool(["true"], 10)
    assert raised.value.filename == tempfile.gettempdir()


def test_ctrl_c_stops_the_program(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"

    def interrupt() -> None:
        while not (pid.exists() and pid.read_text()):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run_tool(python(code), 60)
    assert gone(int(pid.read_text()))


def test_programs_that_cannot_be_started_are_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"nothing: not found; install it or put it on PATH"):
        run_tool([tmp_path / "nothing"], 5)
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    with pytest.raises(ToolError, match=r"plain: no permission to execute it; `chmod \+x` it"):
        run_tool([plain], 5)
    text = tmp_path / "text"
    text.write_text("no program\n")
    text.chmod(0o755)
    with pytest.raises(ToolError, match=r"text: cannot be started \(Exec format error\); install it again"):
        run_tool([text], 5)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any tool."""
    for name in ("LABCODE_NSYS", "LABCODE_NCU"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    places = [place.lstrip("/") for place in (*tools._NSYS_PLACES,)]
    monkeypatch.setattr(tools, "_NSYS_PLACES", tuple(f"{tmp_path}/{place}" for place in places))
    monkeypatch.setattr(tools, "_NCU_PLACES", tuple(f"{tmp_path}/{p.lstrip('/')}" for p in tools._NCU_PLACES))
    return tmp_path


def test_without_tools_nothing_is_found_and_the_message_says_what_to_install(bare: Path) -> None:
    assert find_nsys() is None and find_ncu() is None
    with pytest.raises(ToolError, match="nsys: not found; install Nsight Systems"):
        require_nsys()


def test_the_newest_nsys_inside_nsight_compute_is_found(bare: Path) -> None:
    for version in ("2024.3.2", "2025.10.1", "2025.3.1"):
        program(bare / f"opt/nvidia/nsight-compute/{version}/host/target-linux-x64/nsys", SAYS)
    found = find_nsys()
    assert found is not None and "2025.10.1" in str(found)
    assert inside_nsight_compute(found)


def test_an_nsys_beside_the_ncu_on_path_is_found(bare: Path) -> None:
    home = bare / "somewhere/nsight-compute-2025.3.1"
    program(home / "ncu", SAYS)
    nsys = program(home / "host/target-linux-x64/nsys", SAYS)
    (bare / "bin").mkdir()
    (bare / "bin/ncu").symlink_to(home / "ncu")
    assert find_nsys() == nsys and find_ncu() == bare / "bin/ncu"


def test_nsight_systems_own_and_path_come_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64/nsys", SAYS)
    own = program(bare / "opt/nvidia/nsight-systems/2024.1.1/bin/nsys", SAYS)
    assert find_nsys() == own and not inside_nsight_compute(own)
    on_path = program(bare / "bin/nsys", SAYS)
    assert find_nsys() == on_path
    chosen = program(bare / "mine/nsys", SAYS)
    monkeypatch.setenv("LABCODE_NSYS", str(chosen))
    assert find_nsys() == chosen
    monkeypatch.setenv("LABCODE_NSYS", str(bare / "nothing"))
    with pytest.raises(ToolError, match="nothing: LABCODE_NSYS names no program"):
        find_nsys()


def test_a_bundled_libdw_is_enough(bare: Path) -> None:
    nsys = program(bare / "opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64/nsys", SAYS)
    (nsys.parent / "libdw.so.1").write_bytes(b"")
    assert libdw_available(nsys)


def test_versions_are_read_off_the_tool(tmp_path: Path) -> None:
    assert tools.tool_version(program(tmp_path / "a", SAYS)) == "1.2.3"
    assert tools.tool_version(program(tmp_path / "b", "exit 1")) is None
    assert tools.tool_version(tmp_path / "nothing") is None


def test_a_version_of_endless_digits_is_none_and_takes_no_time(tmp_path: Path) -> None:
    endless = program(tmp_path / "a", "head -c 1000000 /dev/zero | tr '\\0' 7")
    began = time.process_time()
    assert tools.tool_version(endless) is None
    assert time.process_time() - began < 2
    assert tools.tool_version(program(tmp_path / "b", "echo 2026.3.1-20263122")) == "2026.3.1"


def test_toolkit_is_found_where_cuda_home_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = program(tmp_path / "bin" / "nvcc")
    monkeypatch.delenv("CUDACXX", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv(
        "PATH", os.pathsep.join(p for p in os.environ["PATH"].split(":") if not shutil.which("nvcc", path=p))
    )
    assert tools.find_nvcc() == compiler


ENDLESS = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    sys.stdout.write("x" * (1 << 20) + "\\n")
"""


def test_a_program_that_prints_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_MOST_PRINTED", 1 << 24)
    monkeypatch.setattr(tools, "_GRACE_S", 0.1)
    with pytest.raises(ToolError, match=r"loud: it printed more than 16 MiB, so it and all it started were"):
        run_tool(python(ENDLESS), 600, what="loud")


def test_programs_share_one_deadline() -> None:
    stubborn = python("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(6000)")
    with tools.within(2):
        for _ in range(3):
            with pytest.raises(ToolError, match=r"not done after [0-2](\.\d+)? s"):
                run_tool(stubborn, 600)
        assert run_tool(["true"], 60).returncode == 0
    assert run_tool(["sleep", "0.1"], 60).returncode == 0


def test_doctor_ends_though_every_tool_hangs(tmp_path: Path) -> None:
    for name in ("nsys", "ncu", "nvcc", "dcgmi", "nvidia-smi"):
        program(tmp_path / name, "trap '' TERM\nyes | head -1000\nsleep 6000")
    env = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    for name in ("LABCODE_NSYS", "LABCODE_NCU", "CUDA_HOME"):
        env.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "labcode", "doctor", "--json"], env=env, capture_output=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["tools"]
    assert "nsys: does not start; install it again" in found["nsys"]["problem"]
