"""On a GPU machine: solutions pass, starters fail for their speed, wrong answers for what they do, and
recordings made as each part asks for them pass.

    python -m pytest -m gpu tests/exercises/test_gpu.py -s

Parts whose needs are not met (a second GPU, nvcc, torch) are skipped by name.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labcode import tools
from labcode.grading import generate, grade, needs
from labcode.grading.records import Verdict
from tests.exercises.support import PARTS, ROOT, WITH_GPU, part, solution

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]
PROGRAMS = [short for short in WITH_GPU if not PARTS[short].is_sheet]


def verdict_on(short: str, tmp_path: Path, source: str) -> Verdict:
    exercise, found = part(short)
    missing = needs.missing(found.needs)
    if missing:
        pytest.skip(f"{short} needs {needs.in_words(missing)}")
    file = tmp_path / "exercises" / exercise.path(found)
    file.parent.mkdir(parents=True)
    (tmp_path / "cuda").symlink_to(ROOT / "cuda")  # what the CUDA files include by relative path
    file.write_text(source, encoding="utf-8")
    verdict = grade.grade(exercise, found, file)
    print("", short, verdict.headline, *verdict.details, sep="\n  ")
    return verdict


@pytest.mark.parametrize("short", PROGRAMS)
def test_solutions_pass(short: str, tmp_path: Path) -> None:
    assert verdict_on(short, tmp_path, solution(short)).status == "passed"


@pytest.mark.parametrize("short", PROGRAMS)
def test_starters_are_right_but_not_fast_enough(short: str, tmp_path: Path) -> None:
    name = part(short)[1].file
    verdict = verdict_on(short, tmp_path, generate.starter(solution(short), name))
    assert (verdict.status, verdict.headline) == ("failed", "right, but not fast enough")


WRONG = [
    ("nsys-ex01c", "        optimizer.step()\n", "", "the trained parameters do not"),
    (
        "nsys-ex02c",
        "LAB_CUDA(cudaStreamWaitEvent(stream, plan.begun, 0));",
        ";",
        "",
    ),
    ("nsys-ex02c", "slice < plan.job.slices;", "slice + 1 < plan.job.slices;", "results are missing"),
    (
        "nsys-ex03c",
        "begin < job.count; begin += size",
        "begin + size < job.count; begin += size",
        "was not written",
    ),
    (
        "nsys-ex03c",
        "LAB_CUDA(cudaStreamSynchronize(stream));\n    // [starter]",
        ";\n    // [starter]",
        "was not written",
    ),
    (
        "nsys-ex03c",
        "launch_follow(in, out, count, job.steps, stream);",
        "launch_follow(in, out, count, job.steps, plan->streams[(number + 1) % plan->streams.size()]);",
        "",
    ),
    ("nsys-ex04c", "            flat /= self.ranks\n", "", "it is the sum over the ranks"),
    ("compute-ex01b", "LAB_CUDA(cudaMemsetAsync(out, 0,", "LAB_CUDA(cudaMemsetAsync(out, 64,", "instead of"),
    ("compute-ex01b", "(columns + kLanes - 1) / kLanes", "columns / kLanes", ""),
    ("compute-ex01b", "for (; row < end; row += kGroups)", "for (; false;)", "instead of"),
    ("compute-ex01b", "dim3(kLanes, kGroups), 0, stream>>>", "dim3(kLanes, kGroups)>>>", ""),
    ("compute-ex02b", "(rows + kRows - 1) / kRows", "rows / kRows + (rows < kRows)", "was not written"),
    ("compute-ex02b", "if (column + 1 < columns) sum += logf", "sum += logf", "instead of"),
    ("compute-ex02b", "int away = 16;", "int away = 8;", "instead of"),
    ("compute-ex03b", "if (first + e * kThreads < count) out", "out", ""),
    ("compute-ex03b", "int k = kTerms - 1;", "int k = kTerms - 2;", "instead of"),
    ("compute-ex04b", "if (row < height && left + x < width) out", "if (row < height) out", ""),
    ("compute-ex04b", "return min(max(i, 0), count - 1);", "return (i + count) % count;", ""),
]


@pytest.mark.parametrize("number", range(len(WRONG)), ids=lambda n: f"{WRONG[n][0]}-{n}")
def test_wrong_answers_are_told_so(number: int, tmp_path: Path) -> None:
    short, old, new, words = WRONG[number]
    source = solution(short)
    assert old in source, "the solution has changed: change this test with it"
    verdict = verdict_on(short, tmp_path, source.replace(old, new, 1))
    assert verdict.status == "failed"
    assert verdict.headline != "right, but not fast enough"
    assert words in "\n".join((verdict.headline, *verdict.details))


FORK_AND_JOIN = """
inline void run(Plan* plan, cudaStream_t main) {
    %s
    for (int slice = 0; slice < plan->job.slices; ++slice) {
        launch_slice(plan->job, slice, plan->streams[static_cast<size_t>(slice) %% plan->streams.size()]);
    }
    %s
}
"""
FORK = (
    "LAB_CUDA(cudaEventRecord(plan->begun, main)); "
    "for (const cudaStream_t stream : plan->streams) LAB_CUDA(cudaStreamWaitEvent(stream, plan->begun, 0));"
)
JOIN = (
    "for (size_t i = 0; i < plan->streams.size(); ++i) { LAB_CUDA(cudaEventRecord(plan->done[i], "
    "plan->streams[i])); LAB_CUDA(cudaStreamWaitEvent(main, plan->done[i], 0)); }"
)


@pytest.mark.parametrize(
    ("fork", "join", "words"),
    [
        (FORK, JOIN, "right"),
        ("", JOIN, "the streams must wait for `main` (fork)"),
        (FORK, "", "`main` must wait for every stream (join)"),
    ],
    ids=["streams", "no fork", "no join"],
)
def test_streams_need_a_fork_and_a_join(tmp_path: Path, fork: str, join: str, words: str) -> None:
    source = solution("nsys-ex02c")
    begin = source.index("inline void run(Plan* plan, cudaStream_t main)")
    end = source.index("inline void release(")
    changed = source[:begin] + FORK_AND_JOIN % (fork, join) + "\n" + source[end:]
    verdict = verdict_on("nsys-ex02c", tmp_path, changed)
    assert words in "\n".join((verdict.headline, *verdict.details))


def test_a_crash_on_the_gpu_is_told(tmp_path: Path) -> None:
    source = solution("nsys-ex03c").replace(
        "float* const in = job.device_in + begin;", "float* const in = nullptr;"
    )
    verdict = verdict_on("nsys-ex03c", tmp_path, source)
    assert verdict.status == "failed"
    assert "cudaError" in "\n".join(verdict.details)


def test_the_command_grades_gpu_parts(tmp_path: Path) -> None:
    if needs.missing(("gpu", "nvcc")):
        pytest.skip("needs a GPU and nvcc")
    for top in ("solutions", "exercises", "cuda"):
        shutil.copytree(ROOT / top, tmp_path / top)
    exercise, found = part("nsys-ex02c")
    shutil.copy(ROOT / "solutions" / exercise.path(found), tmp_path / "exercises" / exercise.path(found))
    done = subprocess.run(
        [sys.executable, "-m", "labcode", "exercises", "nsys-ex02c"],
        cwd=ROOT,
        env={**__import__("os").environ, "LABCODE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed: right, and fast enough" in done.stdout


RANGE = [
    "--capture-range=nvtx",
    "--nvtx-capture=lab:measured",
    "--capture-range-end=stop",
    "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
]
TRACED = """
import sys
import torch
from torch.profiler import ProfilerActivity, profile, schedule
from labcode.grading.harness import decoder

torch.set_grad_enabled(False)
both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
with profile(activities=both, schedule=schedule(wait=3, warmup=1, active=8)) as recorded:
    decoder.run(decoder.MEASURED, 8, torch.device("cuda"), recorded.step)
recorded.export_chrome_trace(sys.argv[1])
"""


def recorded(short: str, folder: Path, *, wrong: bool) -> Path:
    """What one gets who records as the part asks; ``wrong``: without the range, one kernel, all there is."""
    tool = {"serving-ex30b": "nsys", "serving-ex31b": "ncu", "serving-ex32b": "torch"}[short]
    if tool == "torch":
        made = folder / "mine.trace.json"
        program = ["-m", "labcode.grading.harness.decoder", "--trace", str(made)]
        command = [sys.executable, *(program if wrong else ["-c", TRACED, str(made)])]
    elif tool == "ncu":
        made = folder / "mine.ncu-rep"
        sections = "--section SpeedOfLight --section MemoryWorkloadAnalysis_Tables --clock-control none"
        sections += " --profile-from-start off"
        program = ["labcode.workloads.cuda", "paged_decode", "--variant", "all", "--repetitions", "1"]
        command = [str(tools.find_ncu()), "--target-processes", "all", *sections.split()]
        command += [
            "-k",
            "pages" if wrong else "regex:pages|tensor|split",
            "-o",
            str(made),
            sys.executable,
            "-m",
            *program,
        ]
    else:
        made = folder / "mine.nsys-rep"
        options = ["--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "-o", str(made)]
        program = ["labcode.workloads.inference", "--variant", "slow", "--tokens", "4", "--size", "small"]
        options += [] if wrong else RANGE
        command = [str(tools.require_nsys()), "profile", *options, sys.executable, "-m", *program]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)
    return made


@pytest.mark.parametrize(
    ("short", "said"),
    [
        ("serving-ex30b", "work of the GPU before the first token"),
        ("serving-ex31b", "pages, tensor and split are not all in it"),
        ("serving-ex32b", "tokens of the warm-up are in it"),
    ],
)
def test_ones_own_recording_passes_and_a_wrong_one_does_not(short: str, said: str, tmp_path: Path) -> None:
    exercise, found = part(short)
    for wrong in (False, True):
        folder = tmp_path / str(wrong)
        folder.mkdir()
        made = recorded(short, folder, wrong=wrong)
        (folder / found.file).write_text(f'recording = "{made.name}"\n', encoding="utf-8")
        verdict = grade.grade(exercise, found, folder / found.file)
        print("", short, verdict.headline, *verdict.details, sep="\n  ")
        if wrong:
            assert verdict.status == "failed" and said in "\n".join((verdict.headline, *verdict.details))
        else:
            assert verdict.status == "passed"
