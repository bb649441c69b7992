"""Which commands are composed for which wishes, and wishes that make no sense."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from labcode.profiling import plan as plans
from labcode.profiling import run
from tests.support.command import labcode, one_line
from tests.support.programs import program


@pytest.fixture(autouse=True)
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a script and profilers, on a machine with four GPUs, outside of SLURM."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("pass\n")
    for name in ("nsys", "ncu"):
        program(Path(name))
        monkeypatch.setenv(f"LABCODE_{name.upper()}", str(tmp_path / name))
    for name in ("SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES", "NSYS_PROFILING_SESSION_ID", run.PROFILED):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(run, "gpu_count", lambda: 4)


def composed(*words: str) -> str:
    """The command of a dry run, with neutral words for this machine's paths."""
    result = labcode("profile", "--dry-run", *words)
    assert result.returncode == 0, result.stderr
    first, *rest = result.stdout.splitlines()
    assert first.startswith("mkdir -p ")
    here = str(Path.cwd())
    return "\n".join(rest).replace(f"{here}/", "").replace(shlex.quote(sys.executable), "python")


RANK = "python -m labcode.profiling.rank --ends=train-{}/.ends"
NSYS = "nsys profile --trace=cuda,nvtx --sample=none --cpuctxsw=none"


def test_one_gpu_by_each_tool() -> None:
    assert composed("train.py", "--epochs", "1") == (
        f"{NSYS} --force-overwrite=true --output=train-nsys/train python train.py --epochs 1"
    )
    assert composed("--tool", "torch", "train.py") == (
        "python -m labcode.record.traced --output=train-torch/train --warmup=3 --steps=5 train.py"
    )
    assert composed("--tool", "ncu", "-k", "gemm", "train.py") == (
        "ncu --target-processes=all --clock-control=none --set=full --kernel-name-base=demangled "
        "--kernel-name=regex:gemm --launch-count=5 --force-overwrite --export=train-ncu/train.ncu-rep "
        "python train.py"
    )
    assert composed("--tool", "energy", "train.py") == (
        "python -m labcode energy --quiet --output=train-energy/train.power.json -- python train.py"
    )


def test_warm_up_is_skipped_by_time_by_range_or_by_steps() -> None:
    nsys = composed("--delay", "20s", "--duration", "500ms", "train.py")
    assert nsys.startswith(f"{NSYS} --delay=20 --duration=0.5 --kill=none --force-overwrite=true")
    assert "--capture-range=nvtx --nvtx-capture=step --capture-range-end=stop --env-var=" in composed(
        "--range", "step", "train.py"
    )
    assert "--nvtx --nvtx-include=step/ " in composed(
        *("--tool", "ncu", "--kernel", "x", "--range", "step", "train.py")
    )
    assert " --delay=2 --duration=0 train.py" in composed("--tool", "torch", "--delay", "2s", "train.py")
    assert " --warmup=9 --steps=2 train.py" in composed(
        *("--tool", "torch", "--warmup", "9", "--steps", "2", "train.py")
    )


def test_several_gpus_take_torchrun_and_a_capture_each() -> None:
    torchrun = "python -m torch.distributed.run --standalone --nproc-per-node={} --no-python "
    assert composed("--gpus", "2", "train.py", "-x") == (
        torchrun.format(2)
        + RANK.format("nsys")
        + f" -- {NSYS} --force-overwrite=true '--output=train-nsys/train.rank%q{{RANK}}' -- "
        "python train.py -x"
    )
    assert composed("--mode", "multi-gpu", "train.py").startswith(torchrun.format(4))
    ncu = composed("--gpus", "2", "--tool", "ncu", "-k", "gemm", "--rank", "1", "train.py")
    assert f"{RANK.format('ncu')} --only=1 -- ncu " in ncu and "train.rank%q{RANK}.ncu-rep' -- python" in ncu
    assert " --first -- python -m labcode energy " in composed("--gpus", "2", "--tool", "energy", "train.py")


def test_several_nodes_meet_or_are_started_by_srun(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--nodes", "2", "--gpus", "3", "--tool", "torch", "train.py")
    by_hand, note, by_slurm = composed("--rendezvous", "node7:29500", *words).splitlines()
    meeting = "--nnodes=2 --nproc-per-node=3 --rdzv-backend=c10d --rdzv-id=train --rdzv-endpoint="
    assert by_hand.startswith(f"python -m torch.distributed.run {meeting}node7:29500 --no-python ")
    assert note.startswith("# the same on each of the 2 nodes")
    assert by_slurm.startswith(
        "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 python -m torch"
    )
    assert f'{meeting}"$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)":29500 ' in by_slurm
    for name, value in {
        "SLURM_JOB_ID": "12345",
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_GPUS_ON_NODE": "8",
        "SLURMD_NODENAME": "n1",
        "PATH": "/nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    inside = composed("train.py")
    assert inside.startswith("srun --nodes=2 ") and "--nproc-per-node=8 " in inside
    assert "--rdzv-endpoint=n1:22345 " in inside
    monkeypatch.delenv("SLURM_GPUS_ON_NODE")
    assert "SLURM does not say how many GPUs a node has; say --gpus N" in refused("train.py")


def test_deepspeed_is_seen_in_the_script_and_gets_the_argument_that_its_launcher_gives() -> None:
    Path("train.py").write_text("import os, deepspeed\n")
    command = shlex.split(composed("--gpus", "2", "train.py", "--epochs", "1"))
    assert Path(command[0]).name == "deepspeed" and command[1] == "--num_gpus=2"
    assert 0 < int(command[2].removeprefix("--master_port=")) < 65536
    assert command[3:6] == ["--no_local_rank", "--no_python", "python"]
    assert command[-4:] == ["train.py", "--local_rank=%q{LOCAL_RANK}", "--epochs", "1"]
    assert "torch.distributed.run" in composed("--mode", "multi-gpu", "--gpus", "2", "train.py")


def test_modules_and_programs_and_more_options_of_the_tool() -> None:
    assert composed("-m", "pkg.train", "-v").endswith("--output=train-nsys/train python -m pkg.train -v")
    assert composed("--tool-arg=--gpu-metrics-devices=all", "-o", "out", "sleep", "1").split()[5:] == [
        *("--gpu-metrics-devices=all", "--force-overwrite=true", "--output=out/sleep", "/usr/bin/sleep", "1")
    ]


def test_the_name_in_the_source_documents() -> None:
    words = [
        sys.executable,
        "-m",
        "labcode.unified_profiler",
        "--mode",
        "multi-gpu",
        "--gpus",
        "4",
        "--dry-run",
    ]
    result = subprocess.run([*words, "train.py"], capture_output=True, text=True, check=True)
    assert "--nproc-per-node=4" in result.stdout


def refused(*words: str) -> str:
    return one_line(labcode("profile", *words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("gone.py", "labcode: gone.py: no such script; check the path"),
        ("gone", "labcode: gone: neither a Python script (.py) nor a program; check the path"),
        ("--mode many train.py", "--mode many: there are auto, single, multi-gpu, multi-node, deepspeed"),
        ("--tool perf train.py", "--tool perf: there are nsys, ncu, torch, energy"),
        ("--mode single --gpus 2 train.py", "one process uses one GPU; say --mode multi-gpu"),
        ("--mode multi-gpu --nodes 2 train.py", "several nodes take --mode multi-node"),
        ("--mode deepspeed --nodes 2 train.py", "over several nodes start the script with --mode multi-node"),
        ("--nodes 2 train.py", "say where the nodes meet with --rendezvous HOST:PORT"),
        ("--nodes 2 --rendezvous n1 train.py", "--rendezvous n1: name a host and a port, as in node01:29500"),
        ("--gpus 2 --rendezvous n1:1 train.py", "it is for --mode multi-node"),
        ("--tool ncu train.py", "name the kernels with --kernel REGEX"),
        ("--tool ncu --kernel ( train.py", "--kernel (: no regular expression"),
        ("--tool ncu --kernel . --gpus 2 train.py", "it also matches kernels of NCCL"),
        (
            "--tool ncu --kernel gemm --gpus 2 --rank 2 train.py",
            "--rank 2: there are 2 ranks, numbered from 0",
        ),
        ("--kernel gemm train.py", "--kernel: it is for --tool ncu"),
        ("--tool ncu --kernel gemm --delay 1s train.py", "--delay, --duration: not with --tool ncu"),
        ("--tool energy --duration 1s train.py", "not with --tool energy, which takes the whole run"),
        ("--tool torch --range step train.py", "--range: not with --tool torch"),
        ("--tool torch --warmup 1 train.py", "--warmup 1: at least 2 step"),
        ("--tool-arg=-- train.py", "--tool-arg=--: name an option of the tool"),
        ("--tool torch sleep 1", "sleep: --tool torch is for Python scripts (.py); say --tool nsys"),
        ("--limit 5 train.py", "--limit 5: give a time with its unit"),
        ("--gpus 8 train.py", "8 GPUs are asked for and 4 can be used here; say a smaller --gpus"),
    ],
)
def test_bad_wishes_are_one_line(words: str, message: str) -> None:
    assert message in refused(*words.split())


def test_gpus_that_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "gpu_count", lambda: 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert "1 GPU is asked for and 0 can be used here (CUDA_VISIBLE_DEVICES=7)" in refused("train.py")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES is empty, which hides every GPU; unset it" in refused("train.py")


@pytest.mark.parametrize(
    ("name", "value", "tool"),
    [
        ("NSYS_PROFILING_SESSION_ID", "1", "nsys"),
        ("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "/opt/ncu", "ncu"),
        (run.PROFILED, "torch", "torch"),
    ],
)
def test_profilers_do_not_nest(name: str, value: str, tool: str) -> None:
    with pytest.raises(
        plans.LabError, match=rf"under a profiler already \({tool}\), and profilers do not nest"
    ):
        run.refuse_nesting({name: value})


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABCODE_NCU")
    monkeypatch.setattr(plans.ncu, "find_ncu", lambda: None)
    assert "ncu: not found; install Nsight Compute" in refused("--tool", "ncu", "-k", "x", "train.py")
    monkeypatch.setattr(plans, "_launcher", lambda name: name)
    assert "deepspeed: not found; `python -m pip install" in refused("--mode", "deepspeed", "train.py")
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    for words, message in (
        (("--gpus", "2"), "torchrun: it is part of PyTorch, which is not installed here"),
        (("--tool", "torch"), "--tool torch: PyTorch is not installed here"),
        (("--tool", "energy"), "the power meter needs NVML's Python package"),
    ):
        assert message in refused(*words, "train.py")
        dry = labcode("profile", "--dry-run", *words, "train.py")
        assert dry.returncode == 0 and dry.stderr.startswith("note: ") and message in dry.stderr


def guide() -> list[list[str]]:
    """The commands `labcode profile` in the book's guide, as words."""
    page = Path(__file__).parents[2] / "book" / "scaling" / "guide.md"
    shell = "".join(re.findall(r"^```shell\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))
    lines = shell.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[2:] for line in lines if line.startswith("labcode profile ")]


def test_the_commands_of_the_guide_are_commands() -> None:
    Path("infer.py").touch()
    commands = guide()
    assert len(commands) >= 15
    for words in commands:
        assert "python" in composed(*(word for word in words if word != "--dry-run"))
