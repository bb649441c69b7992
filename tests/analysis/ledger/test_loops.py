"""Programs loop in many ways; whatever the way, what is judged is the loop, and an iteration is one of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from labcode import reports
from labcode.analysis.ledger.steady import Steady, steady
from tests.support import exports as x
from tests.support import strangers
from tests.support.strangers import ADAM, ADD, LOSS, MUL, NORM, RELAY, TENSOR, US, Machine, layer

MS = strangers.MS
STENCIL = "triton_poi_fused_add_copy_mul_slice_sub_0"
NORMAL = "void at::native::<unnamed>::distribution_elementwise_grid_stride_kernel<float, (int)4>(T1)"
Loop = Callable[[Machine], list[int]]


def begins(m: Machine) -> int:
    """How many kernels there are before an iteration: it begins with the next one."""
    return len(m.tables["kernels"])


def found_in(path: Path, machine: Machine, *others: Machine) -> Steady:
    with reports.open_timeline(machine.export(path, *others), "diagnose") as report:
        return steady(report)


def starts(m: Machine, marks: list[int]) -> list[int]:
    """When iterations began on the GPU: of each mark the next kernel's start."""
    return [m.tables["kernels"][mark]["start"] for mark in marks if mark < len(m.tables["kernels"])]


def backward(m: Machine, layers: int, ns: int) -> None:
    for _ in range(layers):
        m.launch(TENSOR, ns)
        m.launch(TENSOR, ns)
        m.launch(ADD, 10 * US)


def one_kernel(m: Machine) -> list[int]:
    """A stencil: start-up, a compiler that tries variants, a pause, then one kernel a step."""
    for _ in range(40):
        m.launch(ADD, 15 * US)
        m.launch(STENCIL, 500 * US)
    for _ in range(2):
        m.launch(STENCIL, 500 * US)
    m.wait("cudaDeviceSynchronize")
    m.now += 5_000 * MS
    marks = []
    for _ in range(150):
        marks.append(begins(m))
        m.launch(STENCIL, 500 * US)
    m.wait("cudaDeviceSynchronize")
    return marks


def checked_now_and_then(m: Machine) -> list[int]:
    """Jacobi: a hundred sweeps, then the error is looked at."""
    marks = []
    for _ in range(12):
        marks.append(begins(m))
        for _ in range(100):
            m.launch(STENCIL, 50 * US)
        m.launch(ADD, 20 * US)
        m.launch(strangers.ANY, 20 * US)
        m.item()
    return marks


def solver_of_any_length(m: Machine) -> list[int]:
    """A solver whose inner loop of one kernel takes as long as it takes, in each step of something else."""
    marks = []
    for _ in range(14):
        marks.append(begins(m))
        m.launch(RELAY, 60 * US)
        for _ in range(m.random.randrange(30, 90)):
            m.launch(STENCIL, 50 * US)
        m.launch(NORM, 60 * US)
        m.launch(LOSS, 20 * US)
    return marks


def varying_lengths(m: Machine) -> list[int]:
    """A generator of texts of varying lengths: matmuls of as many sizes, one update each."""
    marks = []
    for _ in range(30):
        size = m.random.randrange(1, 5)
        for _ in range(6):
            layer(m, size * 100 * US, TENSOR.replace("192x192", f"{64 * size}x128"))
        m.launch(LOSS, 8 * US)
        backward(m, 6, size * 100 * US)
        marks.append(begins(m))
        m.launch(ADAM, 60 * US)
    return marks


def micro_steps(m: Machine) -> None:
    for _ in range(8):
        m.python(50 * US)
        for _ in range(4):
            layer(m, 100 * US, TENSOR)
        m.launch(LOSS, 8 * US)
        backward(m, 4, 100 * US)


def accumulation(m: Machine) -> list[int]:
    """Eight micro-steps, then an update."""
    marks = []
    for _ in range(12):
        micro_steps(m)
        marks.append(begins(m))
        m.launch(ADAM, 60 * US)
    return marks


def accumulation_by_hand(m: Machine) -> list[int]:
    """Eight micro-steps, then an update of each of twelve parameters, by an optimizer without a name."""
    marks = []
    for _ in range(12):
        marks.append(begins(m))
        micro_steps(m)
        for _ in range(12):
            m.launch(MUL, 10 * US)
            m.launch(ADD, 10 * US)
    return marks


def two_optimizers(m: Machine) -> list[int]:
    """A GAN: the discriminator's step on real and made-up pictures, then the generator's."""
    marks = []
    for _ in range(25):
        marks.append(begins(m))
        m.launch(NORMAL, 20 * US)
        for _ in range(3):
            layer(m, 100 * US, TENSOR)
        for _ in range(2):
            layer(m, 150 * US, TENSOR)
            layer(m, 150 * US, TENSOR)
        backward(m, 4, 150 * US)
        m.launch(ADAM, 60 * US)
        for _ in range(3):
            layer(m, 100 * US, TENSOR)
        layer(m, 150 * US, TENSOR)
        backward(m, 5, 120 * US)
        m.launch(ADAM, 60 * US)
    return marks


def two_equal_optimizers(m: Machine) -> list[int]:
    """Two networks of as many layers, each with an update; those of one are attention."""
    marks = []
    for _ in range(25):
        for which in range(2):
            for _ in range(4):
                layer(m, 100 * US, TENSOR)
                m.launch(strangers.SOFTMAX if which else NORM, 20 * US)
            backward(m, 4, 100 * US)
            if not which:
                marks.append(begins(m))
            m.launch(ADAM, 60 * US)
    return marks


def batches_in_turn(m: Machine) -> list[int]:
    """Six batches of different sizes again and again: of each, other kernels of the library run."""
    marks = []
    for step in range(48):
        for _ in range(20):
            layer(m, 100 * US, TENSOR)
        m.launch(TENSOR.replace("192x192", f"{step % 6 * 32}x64"), 100 * US)
        backward(m, 20, 100 * US)
        marks.append(begins(m))
        m.launch(ADAM, 60 * US)
    return marks


def rollout_and_updates(m: Machine) -> list[int]:
    """PPO: 64 steps of an environment with a small network, then eight updates."""
    marks = []
    for _ in range(12):
        marks.append(begins(m))
        for _ in range(64):
            m.launch(TENSOR, 10 * US)
            m.launch(NORM, 5 * US)
            m.launch(NORMAL, 5 * US)
            m.copy(1 << 12, inward=False)
            m.wait()
            m.python(100 * US)
        for _ in range(8):
            for _ in range(4):
                layer(m, 100 * US, TENSOR)
            m.launch(LOSS, 8 * US)
            backward(m, 4, 100 * US)
            m.launch(ADAM, 60 * US)
    return marks


def closures(m: Machine) -> list[int]:
    """L-BFGS: its closure is evaluated until the line search is content, four to seven times a step."""
    marks = []
    for _ in range(12):
        for _ in range(m.random.randrange(4, 8)):
            marks.append(begins(m))
            for _ in range(6):
                layer(m, 100 * US, TENSOR)
            m.launch(LOSS, 8 * US)
            backward(m, 6, 100 * US)
            for _ in range(5):
                m.launch(MUL, 10 * US)
                m.launch(ADD, 10 * US)
            m.item()
    return marks


def served(m: Machine) -> list[int]:
    """Requests come when they come; each goes through all layers."""
    marks = []
    for _ in range(60):
        m.python(m.random.randrange(1, 20) * 100 * US)
        marks.append(begins(m))
        m.copy(1 << 14)
        m.launch(RELAY, 10 * US)
        for _ in range(6):
            layer(m, 100 * US, TENSOR)
        m.copy(1 << 12, inward=False)
        m.wait()
    return marks


def short_epochs(m: Machine) -> list[int]:
    """Epochs of six steps, each with a validation of three forward passes; the steps count."""
    marks = []
    for _ in range(8):
        for _ in range(6):
            for _ in range(6):
                layer(m, 100 * US, TENSOR)
            m.launch(LOSS, 8 * US)
            backward(m, 6, 100 * US)
            marks.append(begins(m))
            m.launch(ADAM, 60 * US)
        for _ in range(3):
            for _ in range(6):
                layer(m, 100 * US, TENSOR)
            m.launch(LOSS, 8 * US)
            m.item()
        m.python(5 * MS)
    return marks


LOOPS: dict[str, Loop] = {
    loop.__name__: loop
    for loop in (
        one_kernel,
        checked_now_and_then,
        solver_of_any_length,
        varying_lengths,
        accumulation,
        accumulation_by_hand,
        two_optimizers,
        two_equal_optimizers,
        batches_in_turn,
        closures,
        served,
    )
}


@pytest.mark.parametrize("name", LOOPS)
def test_an_iteration_is_one_of_the_loop(tmp_path: Path, name: str) -> None:
    machine = strangers.started()
    true = starts(machine, LOOPS[name](machine))
    found = found_in(tmp_path / "a.sqlite", machine)
    assert found.notes == () and found.count == len(true) - 1
    assert found.rows["duration_ns"].mean() == pytest.approx((true[-1] - true[0]) / (len(true) - 1), rel=0.01)
    assert true[0] <= found.window[0] <= true[1]


@pytest.mark.parametrize(("loop", "most"), [(short_epochs, 48), (rollout_and_updates, 96)])
def test_what_comes_every_so_often_is_no_part_of_an_iteration(tmp_path: Path, loop: Loop, most: int) -> None:
    """Validation, or a rollout, between some of the updates: what is judged is the time without them."""
    machine = strangers.started()
    loop(machine)
    found = found_in(tmp_path / "a.sqlite", machine)
    (note,) = found.notes
    assert "have other numbers of kernels" in note
    assert most * 0.8 <= found.count < most
    assert found.rows["duration_ns"].max() < 1.1 * found.rows["duration_ns"].min()


def product(m: Machine, size: int, name: str = TENSOR) -> None:
    m.launch(name, size**3 // 1000)


def many_sizes(m: Machine) -> None:
    """A benchmark of one kernel: the time of each of twelve sizes, of 50 launches."""
    for size in range(200, 800, 50):
        for _ in range(50):
            product(m, size)
        m.wait("cudaEventSynchronize")


def many_sizes_of_some_kernels(m: Machine) -> None:
    """As before; the library chooses between two kernels."""
    for number, size in enumerate(range(200, 1000, 50)):
        for _ in range(50):
            product(m, size, (TENSOR, strangers.SIMT)[number // 2 % 2])
        m.wait("cudaEventSynchronize")


def two_sizes(m: Machine) -> None:
    """The second of two sizes is all of the later half."""
    for size in (400, 600):
        for _ in range(100):
            product(m, size)


def two_long_steps(m: Machine) -> None:
    """A loop of one kernel in each of two steps of something else."""
    for step in range(2):
        for name in (RELAY, NORM, LOSS):
            m.launch(name, 50 * US)
        for _ in range(800 - 10 * step):
            m.launch(STENCIL, 50 * US)


def chosen_by_chance(m: Machine) -> None:
    """Requests of many sizes, each its own kernel's."""
    for _ in range(120):
        size = m.random.randrange(1, 8)
        m.launch(TENSOR.replace("192x192", f"{size * 32}x64"), size * 70 * US)


@pytest.mark.parametrize(
    "program", [many_sizes, many_sizes_of_some_kernels, two_sizes, two_long_steps, chosen_by_chance]
)
def test_launches_of_a_kernel_are_not_always_iterations(
    tmp_path: Path, program: Callable[[Machine], None]
) -> None:
    machine = strangers.started()
    program(machine)
    found = found_in(tmp_path / "a.sqlite", machine)
    assert not found.count and "nothing repeats often enough" in found.told


def replay(m: Machine, ns: int) -> None:
    """A graph, traced as a whole."""
    m.count += 1
    m.call("cudaGraphLaunch", 20 * US, m.count)
    start = max(m.free.get(7, 0) + US, m.now)
    m.free[7] = start + int(ns * m.random.uniform(0.97, 1.03))
    row = x.graph_launch(start, m.free[7], correlation=m.count, stream=7)
    m.tables.setdefault("graphs", []).append(row)


def captured(m: Machine, eager: int, step: Callable[[Machine], None]) -> None:
    """A step is run some times, then captured."""
    for _ in range(eager):
        step(m)
    m.wait("cudaDeviceSynchronize")
    m.call("cudaStreamBeginCapture", 50 * US)
    m.python(30 * MS)
    m.call("cudaGraphInstantiateWithFlags", 40 * MS)


def network(m: Machine) -> None:
    for _ in range(6):
        layer(m, 200 * US, TENSOR)


def trained(m: Machine) -> None:
    network(m)
    backward(m, 6, 200 * US)
    m.launch(ADAM, 60 * US)


def test_a_loop_of_one_graph_begins_after_it_was_captured(tmp_path: Path) -> None:
    machine = strangers.started()
    captured(machine, 3, network)
    for _ in range(100):
        replay(machine, 2 * MS)
    machine.launch(ADD, 20 * US)
    machine.item()
    found = found_in(tmp_path / "a.sqlite", machine)
    assert "launches of “graph 1”, one each" in found.told and found.count == 99
    assert found.window[0] == machine.tables["graphs"][0]["start"]
    assert found.rows["duration_ns"].mean() == pytest.approx(2 * MS, rel=0.02)


def test_graphs_and_kernels_are_one_loop(tmp_path: Path) -> None:
    """Forward and backward pass are a graph, then come the updates of parameters one by one."""
    machine = strangers.started()
    for _ in range(20):
        replay(machine, 2 * MS)
        for _ in range(5):
            machine.launch(MUL, 20 * US)
            machine.launch(ADD, 20 * US)
    found = found_in(tmp_path / "a.sqlite", machine)
    assert "from “graph 1” to the next" in found.told and found.count == 19


@pytest.mark.parametrize("again", [False, True])
def test_iterations_up_to_the_capture_of_a_graph_are_warm_up(tmp_path: Path, again: bool) -> None:
    """Three steps, a graph is captured, its replays take as long; or each step captures one anew."""
    machine = strangers.started()
    for step in range(23):
        if step == 3 or again:
            captured(machine, 0, trained)
        trained(machine)
    found = found_in(tmp_path / "a.sqlite", machine)
    assert found.found is not None
    assert found.found.table["warm_up"].sum() == (0 if again else 3)
    assert (found.rows["duration_ns"] > 60 * MS).all() == again


def test_a_pause_longer_than_all_that_follows_ends_the_warm_up(tmp_path: Path) -> None:
    """A second for something once; but where so much is written in every tenth step, it stays."""
    machine = strangers.started()
    for once in (True, False):
        machine = strangers.started()
        for step in range(40):
            trained(machine)
            if step == 5 if once else step % 10 == 5:
                machine.python(1_000 * MS)
        found = found_in(tmp_path / "a.sqlite", machine)
        assert found.found is not None
        assert (found.found.table["warm_up"].sum(), found.count) == ((6, 33) if once else (0, 39))
