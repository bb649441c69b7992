"""Made-up programs of strangers: the first verdict names the cause, without any mark, with its line."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from labcode import reports
from labcode.analysis.ledger import replay
from labcode.analysis.ledger.lines import COMPILING
from labcode.analysis.rules import Verdict
from labcode.verbs.diagnose.verdicts import diagnose, tables_of
from labcode.verbs.report.gather import gather
from tests.support import exports as x
from tests.support import strangers
from tests.support.command import labcode
from tests.support.stacks import PERIODIC, Frame, python_stacks

LINES = {
    "data-loading": "train.py",
    "host-code": "in `save_checkpoint`, train.py:61",
    "sync-in-loop": "in `train`, train.py:40",
    "pageable-copies": "in `train`, train.py:20",
    "copies-not-hidden": "in `train`, train.py:20",
    "results-copied-back": "in `train`, train.py:50",
    "allocation-in-loop": "in `train`, train.py:40",
    "compiling-in-loop": "in `train`, train.py:50",
}


def judged(path: Path) -> list[Verdict]:
    with reports.open_timeline(path, "diagnose") as report:
        found = diagnose(report)
    assert not [one.message for one in found if one.status == "failed"]
    return [one for one in found if one.status == "found"]


@pytest.mark.parametrize("fault", sorted(strangers.FAULTS))
def test_the_first_verdict_names_the_cause(tmp_path: Path, fault: str) -> None:
    first, *rest = judged(strangers.program(fault, tmp_path / "a.sqlite"))
    assert first.rule == fault
    if fault == "good":
        assert first.severity == "info"
        assert "what bounds it next is the rate of the tensor cores" in first.message
        assert not [one.rule for one in rest if one.severity in ("medium", "high")]
    else:
        assert first.severity in ("medium", "high") and first.predicted
        assert first.low is not None and first.high is not None and first.gain is not None
        assert first.low <= first.gain <= first.high


@pytest.mark.parametrize("fault", sorted(LINES))
def test_verdicts_name_the_line(tmp_path: Path, fault: str) -> None:
    first, *_ = judged(strangers.program(fault, tmp_path / "a.sqlite", stacks=True))
    assert first.rule == fault and LINES[fault] in first.message


def test_one_rank_is_late(tmp_path: Path) -> None:
    first, *_ = judged(strangers.ranks(tmp_path / "a.sqlite"))
    assert first.rule == "late-rank" and "GPU 1 is last in" in first.message
    assert "more of “idle: the program's own code on the CPU”" in first.message


def test_start_up_and_symptoms_are_facts(tmp_path: Path) -> None:
    found = {one.rule: one for one in judged(strangers.program("data-loading", tmp_path / "a.sqlite"))}
    for rule in ("start-up", "idle-gaps", "low-utilization"):
        assert found[rule].severity == "info"


def test_iterations_are_found_and_told(tmp_path: Path) -> None:
    with reports.open_timeline(strangers.program("good", tmp_path / "a.sqlite"), "diagnose") as report:
        tables = tables_of(report)
        assert tables.count == 29 and "updates by the optimizer" in tables.judged.told


def test_validation_is_another_kind_of_iteration(tmp_path: Path) -> None:
    def validates(m: strangers.Machine, step: int) -> None:
        if step % 10 == 9:
            for _ in range(60):
                strangers.layer(m, 900 * strangers.US, strangers.TENSOR)

    machine = strangers.train(strangers.started(), steps=40, after=validates)
    with reports.open_timeline(machine.export(tmp_path / "a.sqlite"), "diagnose") as report:
        tables = tables_of(report)
        (note,) = tables.judged.notes
        assert "of 39 iterations have other numbers of kernels (validation, for one)" in note
        assert tables.judged.rows["ops"].max() < 100


def test_a_checkpoint_now_and_then_is_no_other_kind(tmp_path: Path) -> None:
    with reports.open_timeline(strangers.program("host-code", tmp_path / "a.sqlite"), "diagnose") as report:
        tables = tables_of(report)
        assert tables.judged.notes == () and tables.count == 29


def test_processes_with_different_periods(tmp_path: Path) -> None:
    long = strangers.train(strangers.started(pid=100), steps=12)
    short = strangers.train(strangers.started(pid=200, device=1), steps=12, layers=2)
    with reports.open_timeline(long.export(tmp_path / "a.sqlite", short), "diagnose") as report:
        tables = tables_of(report)
        (note,) = tables.judged.notes
        assert note.startswith("2 processes have iterations of different lengths; judged is process 100")


def test_a_recording_that_begins_in_the_middle_of_an_iteration(tmp_path: Path) -> None:
    machine = strangers.train(strangers.started(), steps=12)
    begin = machine.tables["kernels"][100]["start"]
    for rows in machine.tables.values():
        rows[:] = [row for row in rows if row["start"] >= begin]
    with reports.open_timeline(machine.export(tmp_path / "a.sqlite"), "diagnose") as report:
        tables = tables_of(report)
        assert 7 <= tables.count <= 10
        assert int(tables.ledger.table["total_ns"].sum()) == tables.ledger.whole_ns


def test_stacks_without_names(tmp_path: Path) -> None:
    machine = strangers.started(stacks=True)
    machine.place = strangers.HERE
    strangers.train(machine, batch=strangers.loads(15 * strangers.MS))
    machine.stacks = [(at, [("[unknown]", "[unknown]", 0)]) for at, _ in machine.stacks]
    first, *_ = judged(machine.export(tmp_path / "a.sqlite"))
    assert first.rule == "data-loading" and "in `" not in first.message


def test_stacks_without_frames_are_as_none(tmp_path: Path) -> None:
    messages = []
    for stacks in (False, True):
        machine = strangers.started(stacks=stacks)
        machine.place = strangers.HERE
        strangers.train(machine, batch=strangers.loads(15 * strangers.MS))
        machine.stacks = [(at, []) for at, _ in machine.stacks]
        found = judged(machine.export(tmp_path / f"{stacks}.sqlite"))
        messages.append([(one.rule, one.message) for one in found])
    assert messages[0] and messages[0] == messages[1]


# ---- attention, and threads


@pytest.mark.parametrize(("scale", "way"), [(0, "forward"), (300, "forward"), (0, "backward")])
def test_attention_written_out(tmp_path: Path, scale: int, way: str) -> None:
    def attends(m: strangers.Machine) -> None:
        strangers.attention(m, scale=scale * strangers.US, way=way)

    first, *rest = judged(
        strangers.train(strangers.started(), in_layer=attends).export(tmp_path / "a.sqlite")
    )
    assert first.rule == "unfused-elementwise" and first.severity == "high"
    assert "scaled_dot_product_attention" in first.advice and "are the scores of attention" in first.message
    assert "good" not in [one.rule for one in rest]
    # a layer: 900 µs of matmuls, 40 of the small ones; of the scores all may be saved
    scores, others = 600 + scale, 3 * 300 + 200 + 40
    assert first.gain == pytest.approx(scores / (scores + others), abs=0.05)


@pytest.mark.parametrize("after", [strangers.ROWS.format("top_k"), strangers.NCCL])
def test_a_softmax_before_something_else_than_a_matmul_is_no_attention(tmp_path: Path, after: str) -> None:
    def outputs(m: strangers.Machine) -> None:
        strangers.attention(m, to=after)

    first, *_ = judged(strangers.train(strangers.started(), in_layer=outputs).export(tmp_path / "a.sqlite"))
    assert "attention" not in first.message and first.rule != "unfused-elementwise"


def held(machine: strangers.Machine, state: str, locked: bool, lines: int = 1) -> list[str]:
    """Samples: the launching thread's, and of another one at ``lines`` lines, in a state."""
    at = range(5 * strangers.S, machine.now, strangers.MS)
    mine: list[tuple[int, Sequence[Frame]]] = [(one, (strangers.HERE,)) for one in at]
    other: list[tuple[int, Sequence[Frame]]] = [
        (one + 5, (("count", "/home/me/project/count.py", 8 + number % lines),))
        for number, one in enumerate(at)
    ]
    if locked:
        machine.tables["osrt"] += [
            x.osrt(one, one + strangers.MS // 2, "pthread_cond_timedwait", pid=100, tid=100) for one in at
        ]
    sql = python_stacks(mine, kind=PERIODIC, pid=100, tid=100)
    return sql + [one.replace('"Running"', f'"{state}"') for one in python_stacks(other, pid=100, tid=101)]


@pytest.mark.parametrize(
    ("state", "locked", "lines", "found"),
    [
        ("Running", True, 1, True),
        ("Uninterruptible", True, 1, True),
        ("Running", False, 1, False),  # at one line it may wait, or compute without the lock
        ("Running", False, 3, True),
        ("Blocking Wait", True, 1, False),
        ("Blocking Wait", True, 3, False),
    ],
)
def test_another_thread_holds_the_lock(
    tmp_path: Path, state: str, locked: bool, lines: int, found: bool
) -> None:
    machine = strangers.train(strangers.started(), after=lambda m, _: m.python(15 * strangers.MS))
    sql = held(machine, state, locked, lines)
    nvtx = [x.domain(9, PERIODIC, pid=100, tid=100)]
    rules = [one.rule for one in judged(machine.export(tmp_path / "a.sqlite", nvtx=nvtx, extra_sql=sql))]
    assert ("gil" in rules) == found and (rules[0] == "gil") == found


# ---- windows


def told(path: Path, *words: str) -> str:
    done = labcode("diagnose", path, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0]


def test_windows_that_somebody_chose(tmp_path: Path) -> None:
    path = strangers.program("good", tmp_path / "a.sqlite")
    assert "29 iterations, found by updates by the optimizer" in told(path)
    assert told(path) == told(path, "--window", "steady")
    assert "s judged (all of the capture)" in told(path, "--window", "all")
    assert "100 ms judged (the window 500ms..600ms)" in told(path, "--window", "500ms..600ms")


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("900s..901s", "the window 900s..901s is empty; the capture's goes from 0 ms to "),
        ("5ms..4ms", "the window 5ms..4ms is empty"),
        ("epoch", "no NVTX range 'epoch'; give one of those there are (there is none)"),
    ],
)
def test_windows_outside_of_the_capture(tmp_path: Path, window: str, message: str) -> None:
    path = strangers.program("good", tmp_path / "a.sqlite")
    for command in ("diagnose", "report"):
        done = labcode(command, path, "--window", window)
        assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


def test_a_gpu_without_tensor_cores_gets_no_advice_on_them(tmp_path: Path) -> None:
    machine = strangers.train(strangers.started(), gemm=strangers.SIMT)
    for name, major, minor, wanted in (
        ("Tesla P100-SXM2-16GB", 6, 0, "no tensor cores"),
        ("Tesla V100-SXM2-16GB", 7, 0, "neither TF32 nor bf16"),
    ):
        gpus = [x.gpu(0, name, computeMajor=major, computeMinor=minor)]
        with reports.open_timeline(machine.export(tmp_path / "a.sqlite", gpus=gpus), "diagnose") as report:
            verdict = next(one for one in diagnose(report) if one.rule == "no-tensor-cores")
        assert wanted in verdict.message + verdict.advice and "TF32), or bf16" not in verdict.advice * (
            major > 6
        )


# ---- input that is odd


def test_nothing_repeats(tmp_path: Path) -> None:
    names = [strangers.TENSOR, strangers.ADD, strangers.NORM, strangers.RELAY, strangers.LOSS]
    machine = strangers.started()
    for name in names:
        machine.launch(name, strangers.MS)
    with reports.open_timeline(machine.export(tmp_path / "a.sqlite"), "diagnose") as report:
        tables = tables_of(report)
        assert tables.count == 0 and "nothing repeats often enough" in tables.judged.told
        assert not [one for one in diagnose(report) if one.status == "failed"]


def test_a_single_kernel_and_no_host_rows(tmp_path: Path) -> None:
    path = x.make_export(tmp_path / "b.sqlite", kernels=[x.kernel(5, 9)])
    with reports.open_timeline(path, "diagnose") as report:
        good = next(one for one in diagnose(report) if one.rule == "good")
    said = "could not judge: 1 operation in all, and nothing repeats: that is no steady state"
    assert (good.status, good.message) == ("could not judge", said)
    for kernels in ([x.kernel(5, 9)], [x.kernel(i * 1000, i * 1000 + 400) for i in range(9)]):
        found = judged(x.make_export(tmp_path / "a.sqlite", kernels=kernels))
        assert not [one.rule for one in found if one.severity in ("medium", "high") and one.predicted]


def test_ranks_whose_iterations_do_not_overlap(tmp_path: Path) -> None:
    first = strangers.train(strangers.started(pid=100), steps=12)
    second = strangers.started(pid=200, device=1)
    second.now = first.now + strangers.S
    strangers.train(second, steps=14)
    with reports.open_timeline(first.export(tmp_path / "a.sqlite", second), "diagnose") as report:
        (note,) = tables_of(report).judged.notes
        assert note.startswith("the iterations of 2 processes do not overlap; judged is process 200")


# ---- what is predicted


def test_an_iteration_is_the_whole_loop_and_not_a_part_that_repeats(tmp_path: Path) -> None:
    """Two steps alone: twelve parts each, then a loss; no optimizer that has a name."""
    machine = strangers.started()
    for _ in range(2):
        for _ in range(12):
            strangers.layer(machine, 100 * strangers.US, strangers.TENSOR)
        for _ in range(6):
            machine.launch(strangers.LOSS, 20 * strangers.US)
            machine.launch(strangers.RELAY, 20 * strangers.US)
    with reports.open_timeline(machine.export(tmp_path / "a.sqlite"), "diagnose") as report:
        tables = tables_of(report)
        assert tables.count == 1 and tables.judged.rows["ops"].tolist() == [12 * 4 + 12]


def test_workers_set_the_pace_whatever_the_rest_takes(tmp_path: Path) -> None:
    """Where batches come every 20 ms, quicker launches gain nothing."""
    machine = strangers.started()
    waits = [
        ("wait", "/usr/lib/python3.12/threading.py", 359),
        ("__next__", "/usr/lib/python3/site-packages/torch/utils/data/dataloader.py", 741),
        strangers.HERE,
    ]
    samples: list[tuple[int, Sequence[Frame]]] = []
    due = machine.now
    for _ in range(14):
        due += 20 * strangers.MS
        for at in range(machine.now, due, 2 * strangers.MS):
            samples.append((at, waits))
        machine.now = max(machine.now, due)
        machine.copy(1 << 20, pinned=True)
        for _ in range(100):
            machine.launch(strangers.TENSOR, 4 * strangers.US, host=30 * strangers.US)
        machine.launch(strangers.ADAM, 20 * strangers.US)
    path = x.make_export(
        tmp_path / "a.sqlite",
        **machine.tables,
        nvtx=[x.domain(9, PERIODIC, pid=100, tid=100)],
        extra_sql=python_stacks(samples, kind=PERIODIC),
    )
    with reports.open_timeline(path, "diagnose") as report:
        tables = tables_of(report)
        program = tables.replay.clean
        assert program is not None and (program.due >= 0).any()
        quicker = replay.cheaper_launches(program, program.waits == 0, 0.1, 1_000)
        assert quicker.play() == pytest.approx(20 * strangers.MS, rel=0.01)
        assert tables.replay.base_ns == pytest.approx(20 * strangers.MS, rel=0.01)
        first = next(one for one in diagnose(report) if one.predicted)
        assert first.rule == "data-loading" and first.gain is not None and first.gain > 0.7


@pytest.mark.parametrize(
    ("call", "before"),
    [
        (3, (30, 1_000)),  # a launch takes no longer than without a recorder
        (4.5, (27, 900)),  # of 30 µs a tenth; of long code, too
        (8, (22.5, 800)),  # 1.5 times the 5 µs; of long code a fifth, as where the call takes twice as long
        (30, (15, 800)),  # never more than half
    ],
)
def test_code_takes_longer_under_a_recorder_whose_calls_do(
    tmp_path: Path, call: float, before: tuple[float, int]
) -> None:
    """50 launches with 30 µs of code before each, and 1 ms of code an iteration: what of that remains."""
    machine = strangers.started()
    machine.launching = int(call * strangers.US)
    for _ in range(20):
        machine.python(strangers.MS)
        for _ in range(50):
            machine.launch(strangers.TENSOR, 4 * strangers.US, host=30 * strangers.US)
        machine.launch(strangers.ADAM, 4 * strangers.US, host=30 * strangers.US)
    with reports.open_timeline(machine.export(tmp_path / "a.sqlite"), "diagnose") as report:
        replayed = tables_of(report).replay
        launches = 51 * (before[0] + min(call, max(3, call / 2)))
        assert replayed.recorded_ns == pytest.approx((1_000 + 51 * (30 + call)) * strangers.US, rel=0.02)
        assert replayed.base_ns == pytest.approx((before[1] + launches) * strangers.US, rel=0.03)


@pytest.mark.parametrize("function", ["<module>", "train"])
def test_reads_answer_for_what_is_launched_for_them_and_not_for_all_of_the_loop(
    tmp_path: Path, function: str
) -> None:
    """Launches set the pace of a loop on a script's top level, or in a function; numbers are read in it."""

    def line(number: int) -> Frame:
        return function, "/home/me/project/gan.py", number

    def loop(reads: bool) -> strangers.Machine:
        m = strangers.started(stacks=reads)
        for _ in range(20):
            m.place = line(20)
            for _ in range(150):
                m.launch(strangers.ADD, 4 * strangers.US)
            m.place = line(21)
            for _ in range(11 if reads else 1):
                m.launch(strangers.NORM, 3 * strangers.US)
                if reads:
                    m.item()
            m.place = line(22)
            m.launch(strangers.ADAM, 20 * strangers.US)
        m.wait("cudaDeviceSynchronize")
        return m

    fault, mended = loop(reads=True), loop(reads=False)
    began = strangers.started().now
    gained = 1 - (mended.now - began) / (fault.now - began)
    found = {one.rule: one for one in judged(fault.export(tmp_path / "a.sqlite"))}
    assert next(rule for rule in found if rule != "good") == "launch-bound"
    gain = found["sync-in-loop"].gain
    assert gain is not None and gained / 1.5 < gain < gained * 1.5


def test_of_processes_with_different_periods_the_judged_one_stands_first(tmp_path: Path) -> None:
    first = strangers.train(strangers.started(), steps=20)
    second = strangers.train(strangers.started(pid=200, device=1), steps=31, gemm_ns=90 * strangers.US)
    path = first.export(tmp_path / "a.sqlite", second)
    with reports.open_timeline(path, "diagnose") as report:
        tables = tables_of(report)
        assert "judged is process 100" in tables.judged.notes[0]
        assert tables.ledger.pid == 100 and tables.ledger.count == tables.count == 19
    told = labcode("diagnose", path).stdout
    assert "one of 19 iterations" in told and "in all" not in told  # no column of the other process
    with gather([path]) as document:
        assert document.ledger is not None
        assert list(document.ledger.rows) == ["time of an iteration", "GPU 0_ns", "share"]


def test_code_after_results_were_read_back_is_no_loading_of_data(tmp_path: Path) -> None:
    """Without stacks: results come back, Python works with them for long, the next batch goes out."""

    def loop(size: int) -> strangers.Machine:
        m = strangers.started()
        for _ in range(20):
            m.copy(64 << 10, pinned=True)
            for _ in range(30):
                m.launch(strangers.TENSOR, 60 * strangers.US)
            m.copy(size, inward=False)
            m.wait()
            m.python(12 * strangers.MS)
        return m

    assert judged(loop(16 << 10).export(tmp_path / "results.sqlite"))[0].rule == "host-code"
    assert judged(loop(4).export(tmp_path / "number.sqlite"))[0].rule == "data-loading"


def test_small_copies_name_their_line(tmp_path: Path) -> None:
    def many(m: strangers.Machine, step: int) -> None:
        m.place = ("move", "/home/me/project/train.py", 12)
        for _ in range(100):
            m.copy(8 << 10)

    machine = strangers.train(strangers.started(stacks=True), batch=many)
    found = {one.rule: one for one in judged(machine.export(tmp_path / "a.sqlite"))}
    assert "in `move`, train.py:12" in found["small-copies"].message


def test_a_single_kernel_is_no_good_steady_state_where_a_range_is_called_a_step_either(
    tmp_path: Path,
) -> None:
    machine = strangers.started()
    machine.launch(strangers.ADD, 4 * strangers.US)
    edge = machine.now + strangers.MS
    steps = [
        x.push_pop(edge - 2 * strangers.MS, edge, "step 0", pid=100, tid=100),
        x.push_pop(edge, edge + 2 * strangers.MS, "step 1", pid=100, tid=100),
    ]
    machine.now = edge + strangers.MS
    machine.launch(strangers.ADD, 4 * strangers.US)
    path = machine.export(tmp_path / "a.sqlite", nvtx=steps)
    assert "good" not in [one.rule for one in judged(path)]


def test_small_copies_answer_for_the_code_and_the_wait_of_each(tmp_path: Path) -> None:
    def loop(many: int) -> strangers.Machine:
        def move(m: strangers.Machine, step: int) -> None:
            m.place = ("move", "/home/me/project/train.py", 12)
            for _ in range(many):
                m.send(8 << 10)

        return strangers.train(
            strangers.started(stacks=True), layers=3, gemm_ns=20 * strangers.US, batch=move
        )

    fault, mended = loop(150), loop(1)
    began = strangers.started().now + 40 * strangers.MS  # code is loaded in the first step
    gained = 1 - (mended.now - began) / (fault.now - began)
    first, *_ = judged(fault.export(tmp_path / "a.sqlite"))
    assert first.rule == "small-copies" and "in `move`, train.py:12" in first.message
    assert first.gain is not None and gained / 1.2 < first.gain < gained * 1.2


def test_numbers_sent_between_kernels_are_waits_and_nothing_to_pack(tmp_path: Path) -> None:
    def number(m: strangers.Machine) -> None:
        m.place = ("loss_of", "/home/me/project/train.py", 9)
        m.send(4)
        m.python(60 * strangers.US)
        m.place = strangers.HERE

    machine = strangers.train(strangers.started(stacks=True), gemm_ns=80 * strangers.US, in_layer=number)
    first, *rest = judged(machine.export(tmp_path / "a.sqlite"))
    assert first.rule == "sync-in-loop" and "in `loss_of`, train.py:9" in first.message
    assert "small-copies" not in [one.rule for one in rest]


def sampled(machine: strangers.Machine, samples: Sequence[tuple[int, Sequence[Frame]]], path: Path) -> Path:
    """The export of a machine, with samples of its stacks."""
    nvtx = [x.domain(9, PERIODIC, pid=100, tid=100)]
    return x.make_export(path, **machine.tables, nvtx=nvtx, extra_sql=python_stacks(samples, kind=PERIODIC))


def gained_by(fault: strangers.Machine, mended: strangers.Machine) -> float:
    began = strangers.started().now + 40 * strangers.MS  # code is loaded in the first step
    return 1 - (mended.now - began) / (fault.now - began)


def test_code_that_makes_what_is_copied_answers_for_the_copy(tmp_path: Path) -> None:
    """In each layer a tensor is made on the CPU and copied from pageable memory; mended: it is kept."""
    samples: list[tuple[int, Sequence[Frame]]] = []

    def bias(m: strangers.Machine) -> None:
        samples.append((m.now + strangers.MS, (("bias", "/home/me/project/train.py", 9), strangers.HERE)))
        m.python(2 * strangers.MS)
        samples.append((m.now + 1, (strangers.HERE,)))
        m.copy(8 << 20)

    fault = strangers.train(strangers.started(), gemm_ns=50 * strangers.US, in_layer=bias)
    mended = strangers.train(strangers.started(), gemm_ns=50 * strangers.US)
    gained = gained_by(fault, mended)
    first, *_ = judged(sampled(fault, samples, tmp_path / "a.sqlite"))
    assert first.rule == "host-code" and first.gain is not None
    assert gained - 0.05 < first.gain < gained + 0.05  # without the copies: two thirds of it


def test_results_that_the_cpu_works_with_answer_for_that_work(tmp_path: Path) -> None:
    """Scores come back in each step, and a metric is computed of them there; mended: on the GPU."""

    def metric(m: strangers.Machine, step: int) -> None:
        m.copy(40 << 20, inward=False)
        m.wait()
        m.python(3 * strangers.MS)

    fault = strangers.train(strangers.started(), gemm_ns=50 * strangers.US, after=metric)
    gained = gained_by(fault, strangers.train(strangers.started(), gemm_ns=50 * strangers.US))
    first, *_ = judged(fault.export(tmp_path / "a.sqlite"))
    assert first.rule == "results-copied-back" and first.gain is not None
    assert gained - 0.05 < first.gain < gained + 0.05


def test_stretches_without_a_sample_are_as_those_with_one(tmp_path: Path) -> None:
    """Before each copy of some size the same function runs, of which a sample sees every third."""
    machine = strangers.started()
    samples: list[tuple[int, Sequence[Frame]]] = []
    frame = ("bias", "/home/me/project/train.py", 9)
    for _ in range(20):
        for layer in range(6):
            machine.launch(strangers.TENSOR, 100 * strangers.US)
            if layer % 3 == 0:
                samples.append((machine.now + strangers.MS, (frame, strangers.HERE)))
            machine.python(3 * strangers.MS)
            machine.copy(1 << 20)
        machine.launch(strangers.ADAM, 60 * strangers.US)
        samples.append((machine.now, (strangers.HERE,)))
    found = {one.rule: one for one in judged(sampled(machine, samples, tmp_path / "a.sqlite"))}
    assert "data-loading" not in found and "in `bias`, train.py:9" in found["host-code"].message


def test_iterations_have_their_samples_together_and_methods_of_one_name_are_told_apart(
    tmp_path: Path,
) -> None:
    """A block's `forward` calls an activation's, which launches six kernels while no sample falls: each step
    is seen once, at another place. Both have one name in one file.
    """
    file, machine = "/home/me/project/net.py", strangers.started()
    samples: list[tuple[int, Sequence[Frame]]] = []
    for step in range(60):
        for number in range(12):
            if number in (0, 9, 10, 11):
                path: list[Frame] = [("forward", file, 35), strangers.HERE]
                name = strangers.TENSOR
            else:
                path = [("forward", file, 22 + number % 4), ("forward", file, 35), strangers.HERE]
                name = (strangers.ADD, strangers.MUL)[number % 2]
            if number == step * 5 % 12:
                samples.append((machine.now + 1, path))
            machine.launch(name, 300 * strangers.US, host=20 * strangers.US)
        machine.wait()
        machine.launch(strangers.ADAM, 60 * strangers.US)
    found = {one.rule: one for one in judged(sampled(machine, samples, tmp_path / "a.sqlite"))}
    assert "100.0 % of that in `forward`, net.py:2" in found["unfused-elementwise"].message


def test_calls_that_allocate_are_no_launches_and_name_who_gives_memory_back(tmp_path: Path) -> None:
    """Launches set the pace; after each step the cache is given back, and in the next memory is asked for."""
    samples: list[tuple[int, Sequence[Frame]]] = []
    giving = (
        ("empty_cache", "/usr/lib/python3/site-packages/torch/cuda/memory.py", 280),
        ("train", "/home/me/project/train.py", 69),
    )

    def memory(m: strangers.Machine, step: int) -> None:
        m.wait("cudaFree")
        for _ in range(6):
            samples.append((m.now + 1, giving))
            m.call("cudaFree", 300 * strangers.US)
        samples.append((m.now + 1, (strangers.HERE,)))
        for _ in range(6):
            m.call("cudaMalloc", 300 * strangers.US)

    machine = strangers.train(
        strangers.started(), layers=60, gemm_ns=4 * strangers.US, small=2 * strangers.US, after=memory
    )
    first, *rest = judged(sampled(machine, samples, tmp_path / "a.sqlite"))
    assert first.rule == "allocation-in-loop"
    assert "100.0 % of that in `train`, train.py:69" in first.message
    launches = next(one for one in rest if one.rule == "launch-bound")
    assert launches.gain is not None and first.gain is not None
    assert launches.gain + first.gain < 1  # nothing of an iteration is promised twice


def test_numbers_read_right_after_each_other_are_one_copy(tmp_path: Path) -> None:
    """Each step reads 64 numbers one by one; mended: once, a list of them."""

    def reads(many: int) -> strangers.Machine:
        def read(m: strangers.Machine, step: int) -> None:
            for _ in range(many):
                m.python(10 * strangers.US)
                m.item()

        return strangers.train(strangers.started(), layers=4, gemm_ns=60 * strangers.US, after=read)

    fault, mended = reads(64), reads(1)
    found = {one.rule: one for one in judged(fault.export(tmp_path / "a.sqlite"))}
    gain = found["sync-in-loop"].gain
    assert gain is not None and gain > gained_by(fault, mended) - 0.05


def test_a_table_most_rows_of_which_were_looked_up_is_updated_as_a_whole(tmp_path: Path) -> None:
    """The kernel that adds to rows takes as long as writing zeros for all of them, so they all may be new."""

    def update(m: strangers.Machine) -> None:
        m.launch(strangers.FILL, 400 * strangers.US)
        m.launch(strangers.ROWS.format("sum_and_scatter"), 400 * strangers.US)
        for _ in range(20):
            m.launch(strangers.ADAM, 200 * strangers.US)

    machine = strangers.train(strangers.started(), update=update)
    assert "dense-embedding" not in [one.rule for one in judged(machine.export(tmp_path / "a.sqlite"))]


def test_what_is_compiled_every_so_often_counts_in_the_whole_loop(tmp_path: Path) -> None:
    """Two of three hundred iterations compile for long: more than all of the others take."""

    def sometimes(m: strangers.Machine, step: int) -> None:
        if step in (100, 200):
            m.call("cuModuleLoadData", 2 * strangers.S)

    def loop(steps: int, after: bool) -> strangers.Machine:
        return strangers.train(
            strangers.started(),
            steps=steps,
            gemm_ns=50 * strangers.US,
            after=sometimes if after else None,
        )

    fault, mended = loop(300, True), loop(300, False)
    first, *_ = judged(fault.export(tmp_path / "a.sqlite"))
    assert first.rule == "compiling-in-loop" and "2 iterations that lie apart" in first.message
    assert first.gain == pytest.approx(gained_by(fault, mended), abs=0.05)


def test_what_is_loaded_once_is_a_fact_and_promises_nothing(tmp_path: Path) -> None:
    """About half a second in one of thirty iterations of 12 ms, or in two of sixty that are near each other;
    in every third, or in two that are far apart, it is a cause.
    """

    def loop(when: set[int], steps: int = 30) -> Verdict:
        def loads(m: strangers.Machine, step: int) -> None:
            if step in when:
                m.call("cuModuleLoadData", 500 * strangers.MS)

        machine = strangers.train(strangers.started(), steps=steps, after=loads)
        found = judged(machine.export(tmp_path / f"{sum(when)}.sqlite"))
        return next(one for one in found if one.rule == "compiling-in-loop")

    for when, steps in (({12}, 30), ({50, 53}, 60)):
        once = loop(when, steps)
        assert once.severity == "info" and once.gain is None
        assert f", once in {steps - 1} iterations" in once.message
    for when, steps in ((set(range(3, 30, 3)), 30), ({12, 50}, 60)):
        often = loop(when, steps)
        assert often.severity == "high" and often.gain is not None and often.gain > 0.5


def test_matmuls_in_fp64_gain_what_tf32_takes_less(tmp_path: Path) -> None:
    """The tensor cores of an H200 do 67 TFLOP/s in fp64 and 494.5 in TF32, of which seven tenths count."""
    ms = strangers.MS
    fault, mended = (
        strangers.train(strangers.started(), gemm=strangers.DOUBLE, gemm_ns=round(2 * ms * factor))
        for factor in (1.0, 67 / 494.5 / 0.7)
    )
    first, *_ = judged(fault.export(tmp_path / "a.sqlite"))
    assert first.rule == "double-precision" and "TF32" in first.advice
    assert first.gain == pytest.approx(gained_by(fault, mended), abs=0.02)


def test_a_matrix_times_a_vector_is_bound_by_the_memory(tmp_path: Path) -> None:
    name = "void gemv2T_kernel_val<int, int, float, float, float, float, (int)128, (int)16>(T1)"
    machine = strangers.train(strangers.started(), gemm=name)
    first, *_ = judged(machine.export(tmp_path / "a.sqlite"))
    assert first.rule == "good" and "the rate of" not in first.message
    assert "what bounds it next is the bandwidth of the memory" in first.message
    assert "of the products are a matrix times a vector" in first.message


@pytest.mark.parametrize(
    ("kernel", "told"), [("elementwise_kernel", True), ("vectorized_elementwise_kernel", False)]
)
def test_distances_of_all_to_all_are_a_product(tmp_path: Path, kernel: str, told: bool) -> None:
    """Tensors of one shape are subtracted by a vectorized kernel: an error, which no product gives."""

    def distances(m: strangers.Machine) -> None:
        for name in (
            f"void {kernel}<(int)128, (int)2, CUDAFunctor_add<float>>(int, T3)",
            "void vectorized_elementwise_kernel<(int)4, pow_tensor_scalar_kernel_impl<float, float>>(int)",
        ):
            m.launch(name, 300 * strangers.US)
            m.launch(name, 300 * strangers.US)
        m.launch("void reduce_kernel<(int)512, (int)1, sum_functor<float, float>>(T3)", 400 * strangers.US)

    machine = strangers.train(strangers.started(), in_layer=distances)
    first, *_ = judged(machine.export(tmp_path / "a.sqlite"))
    assert first.rule == "unfused-elementwise" and ("torch.cdist" in first.advice) is told


@pytest.mark.parametrize("gemm_ns", [25 * strangers.US, 100 * strangers.US])
def test_launches_that_wait_for_their_kernels_gain_what_mending_gains(tmp_path: Path, gemm_ns: int) -> None:
    """As CUDA_LAUNCH_BLOCKING=1 makes them; without it the shorter kernels are bound by their launches."""

    def loop(blocking: bool) -> strangers.Machine:
        machine = strangers.started()
        machine.blocking = blocking
        return strangers.train(machine, gemm_ns=gemm_ns, elementwise=1, small=2 * strangers.US)

    fault, mended = loop(True), loop(False)
    first, *rest = judged(fault.export(tmp_path / "a.sqlite"))
    assert first.rule == "blocking-launches" and "CUDA_LAUNCH_BLOCKING" in first.advice
    assert first.gain == pytest.approx(gained_by(fault, mended), abs=0.05)
    assert "launch-bound" not in [one.rule for one in rest]
    rest = judged(mended.export(tmp_path / "b.sqlite"))
    assert "blocking-launches" not in [one.rule for one in rest]


def test_results_checked_for_nan_gain_what_mending_gains(tmp_path: Path) -> None:
    def loop(check: bool) -> strangers.Machine:
        return strangers.train(
            strangers.started(), gemm_ns=100 * strangers.US, in_layer=strangers.checks if check else None
        )

    fault, mended = loop(True), loop(False)
    first, *_ = judged(fault.export(tmp_path / "a.sqlite"))
    assert first.rule == "nan-checks" and "32 times in each iteration" in first.message
    assert first.gain == pytest.approx(gained_by(fault, mended), abs=0.1)
    assert "nan-checks" not in [one.rule for one in judged(mended.export(tmp_path / "b.sqlite"))]


def test_a_loss_looked_at_for_nan_is_no_such_check(tmp_path: Path) -> None:
    def look(m: strangers.Machine, step: int) -> None:
        m.launch(strangers.IS_NAN, 2 * strangers.US)
        m.launch(strangers.ANY, 5 * strangers.US)
        m.item()

    machine = strangers.train(strangers.started(), after=look)
    assert "nan-checks" not in [one.rule for one in judged(machine.export(tmp_path / "a.sqlite"))]


BLOCK: Frame = ("forward", "/home/me/project/model.py", 33)
CHECKPOINT: Frame = ("checkpoint", "/usr/lib/python3/site-packages/torch/utils/checkpoint.py", 512)
WHOLE: Frame = ("forward", "/home/me/project/model.py", 50)


def with_checkpoint(machine: strangers.Machine, path: Path, frames: Sequence[Frame]) -> list[Verdict]:
    """Judge an export whose samples of the main thread have some frames, from the outermost on."""
    stack = (strangers.HERE, *frames)[::-1]
    samples = [(at, stack) for at in range(strangers.started().now, machine.now, 5 * strangers.MS)]
    return judged(
        machine.export(path, nvtx=[x.domain(9, PERIODIC)], extra_sql=python_stacks(samples, pid=100, tid=100))
    )


@pytest.mark.parametrize("each", [1, 2])
def test_layers_computed_again_gain_what_mending_gains(tmp_path: Path, each: int) -> None:
    """Where the capture does not tell how much memory is used it is medium at most."""
    fault, mended = (
        strangers.checkpointed(strangers.started(), again=one, each=each) for one in (True, False)
    )
    found = with_checkpoint(fault, tmp_path / "a.sqlite", (WHOLE, CHECKPOINT, BLOCK))
    first = next(one for one in found if one.rule == "recomputation")
    assert first.severity == ("medium" if each == 1 else "low")
    assert f"{32 // each} kernels of the forward pass in each iteration" in first.message
    assert "of the GPU's 150 GB is in use the capture does not tell" in first.message
    assert "in `forward`, model.py:50" in first.message
    assert first.gain == pytest.approx(gained_by(fault, mended), abs=0.02)
    rest = with_checkpoint(mended, tmp_path / "b.sqlite", (WHOLE, CHECKPOINT, BLOCK))
    assert "recomputation" not in [one.rule for one in rest]


def test_kernels_launched_again_without_a_checkpoint_are_no_recomputation(tmp_path: Path) -> None:
    machine = strangers.checkpointed(strangers.started())
    found = with_checkpoint(machine, tmp_path / "a.sqlite", (WHOLE, BLOCK))
    assert "recomputation" not in [one.rule for one in found]


def test_ranges_of_autograd_name_checkpoints_as_well(tmp_path: Path) -> None:
    machine = strangers.checkpointed(strangers.started())
    begin = machine.now - 5 * strangers.MS
    mark = x.push_pop(begin, begin + strangers.MS, "CheckpointFunctionBackward", pid=100, tid=101)
    first, *_ = judged(machine.export(tmp_path / "a.sqlite", nvtx=[mark]))
    assert first.rule == "recomputation"


def test_normalizations_of_nchw_have_all_sms_once_the_layout_is_right(tmp_path: Path) -> None:
    """66 channels are blocks for half of 132 SMs: half of the normalization goes with the copies."""

    def right(m: strangers.Machine) -> None:
        m.launch(strangers.BATCH_NORM.format("collect_statistics_channels_last_kernel"), 400 * strangers.US)

    fault, mended = (
        strangers.train(strangers.started(), in_layer=one) for one in (strangers.contiguous, right)
    )
    first, *_ = judged(fault.export(tmp_path / "a.sqlite"))
    assert first.rule == "layout-conversions"
    assert first.gain == pytest.approx(gained_by(fault, mended), abs=0.03)


def test_a_first_launch_that_loads_code_is_no_pace_of_launches(tmp_path: Path) -> None:
    """Nothing repeats; one kernel's first launch takes 7 ms, others 5 µs."""
    machine = strangers.Machine()
    for number in range(14):
        if number == 12:
            machine.count += 1
            machine.call("cudaLaunchKernel", 7 * strangers.MS, machine.count)
            end = machine.now + 10 * strangers.US
            machine.tables["kernels"].append(
                x.kernel(machine.now + 1, end, "late", correlation=machine.count, pid=machine.pid)
            )
        else:
            machine.launch(f"kernel{number % 13}_{'abcdefghijklmn'[number]}", 10 * strangers.US)
    with reports.open_timeline(machine.export(tmp_path / "a.sqlite"), "diagnose") as report:
        ledger = tables_of(report).ledger
        found = [one for one in diagnose(report) if one.status == "found"]
    assert ledger.each("loading") == pytest.approx(7 * strangers.MS, rel=0.01)
    assert not [one.rule for one in found if one.severity in ("high", "medium")]


def test_one_whole_iteration_may_be_a_first_one(tmp_path: Path) -> None:
    """A cache that grows in it is no allocation in each, and what is said of it comes with a note."""
    machine = strangers.Machine()
    begin = machine.now
    for _ in range(4):
        machine.call("cudaMalloc", 4 * strangers.MS)
        strangers.layer(machine, 50 * strangers.US, strangers.TENSOR)
    machine.call("cudaFree", 3 * strangers.MS)
    strangers.layer(machine, 50 * strangers.US, strangers.TENSOR)
    machine.wait()
    step = x.push_pop(begin, machine.now, "step 1", pid=machine.pid, tid=machine.pid)
    path = machine.export(tmp_path / "a.sqlite", nvtx=[step])
    told = labcode("diagnose", str(path))
    assert "the only whole iteration, perhaps a first one" in told.stdout + told.stderr
    assert "allocation-in-loop" not in [one.rule for one in judged(path)]


@pytest.mark.parametrize(("steps", "call"), [(1, "cudaMalloc"), (1, "cudaEventRecord"), (2, "cudaMalloc")])
def test_what_a_first_iteration_alone_shows_is_medium_at_most(tmp_path: Path, steps: int, call: str) -> None:
    machine, marks = strangers.Machine(), []
    for number in range(steps):
        begin = machine.now
        for _ in range(8):
            strangers.layer(machine, 300 * strangers.US, strangers.SIMT)
            machine.call(call, 20 * strangers.US)
        machine.wait()
        marks.append(x.push_pop(begin, machine.now, f"step {number}", pid=machine.pid, tid=machine.pid))
    found = judged(machine.export(tmp_path / "a.sqlite", nvtx=marks))
    one = next(one for one in found if one.rule == "no-tensor-cores")
    assert one.gain is not None and one.gain > 0.5
    assert one.severity == ("medium" if (steps, call) == (1, "cudaMalloc") else "high")


@pytest.mark.parametrize(
    ("name", "compiles"),
    [
        ("torch/_dynamo/convert_frame.py(1201): compile_inner", True),
        ("torch/_inductor/compile_fx.py(740): _compile_fx_inner", True),
        ("torch/_dynamo/eval_frame.py(791): compile_wrapper", False),  # around each call of compiled code
        ("## Call CompiledFxGraph fp5r5pk7 ##", False),
        ("TorchDynamo Cache Lookup", False),
    ],
)
def test_running_compiled_code_is_no_compiling(name: str, compiles: bool) -> None:
    assert bool(re.search(COMPILING, name)) == compiles
