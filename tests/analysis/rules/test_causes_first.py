"""What is told first: work that no rule names is asked about, and what makes launches comes before them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from labcode import reports
from labcode.analysis.rules import Verdict
from labcode.analysis.rules.facts import ranking
from labcode.analysis.rules.finding import Severity
from labcode.verbs.diagnose.verdicts import diagnose
from tests.support import strangers
from tests.support.strangers import US

SORT = "void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<long>(const T1 *, T1 *)"
PICK = "void at::native::index_elementwise_kernel<(int)128, (int)4, void at::native::gpu_index_kernel>(long)"
MINE = "triton_poi_fused_relax_0"


def found(machine: strangers.Machine, path: Path) -> list[Verdict]:
    with reports.open_timeline(machine.export(path / "a.sqlite"), "diagnose") as report:
        return [one for one in diagnose(report) if one.status == "found"]


def loop(
    name: str, *, first: str = PICK, products: int = 6, vary: bool = False, stacks: bool = True
) -> strangers.Machine:
    """Iterations of products, and a function that launches three kernels, 3 ms, before them."""
    m = strangers.started(stacks=stacks)
    for step in range(20):
        m.place = ("normalized", "/home/me/project/graph.py", 28)
        for other in (first, name, name):
            m.launch(other, 1000 * US, blocks=1024 + 8 * vary * (7 * step % 20))
        m.place = strangers.HERE
        for _ in range(products):
            m.launch(strangers.TENSOR, 500 * US)
        m.launch(strangers.ADAM, 60 * US)
    m.wait("cudaDeviceSynchronize")
    return m


def test_work_that_no_rule_names_is_asked_about_with_its_function(tmp_path: Path) -> None:
    first, *rest = found(loop(SORT), tmp_path)
    assert (first.rule, first.severity, first.low) == ("unnamed-work", "low", 0.0)
    assert first.gain == pytest.approx(3 / 6.06, abs=0.02)
    assert "what `normalized` launches" in first.message and "in `normalized`, graph.py:28" in first.message
    assert "; the same 4 operations" in first.message and "computed anew" in first.advice
    assert "good" not in [one.rule for one in rest]


def test_of_work_of_other_sizes_each_time_half_is_promised(tmp_path: Path) -> None:
    first, *_ = found(loop(SORT, vary=True), tmp_path)
    assert first.rule == "unnamed-work" and first.gain == pytest.approx(1.5 / 6.06, abs=0.02)
    assert "the same" not in first.message


def test_without_stacks_the_kind_of_work_is_told(tmp_path: Path) -> None:
    first, *_ = found(loop(SORT, stacks=False), tmp_path)
    assert first.rule == "unnamed-work" and first.message.startswith("indexing, embeddings, sorting: ")


@pytest.mark.parametrize(
    ("name", "products"),
    [
        (SORT, 0),  # nearly all of the iteration is what it is for
        (SORT, 30),  # less than a quarter
        (MINE, 6),  # a kernel of one's own, fused: the work itself
        (strangers.TENSOR, 6),
    ],
)
def test_what_an_iteration_is_for_is_good(tmp_path: Path, name: str, products: int) -> None:
    first, *rest = found(loop(name, products=products), tmp_path)
    assert first.rule == "good" and "unnamed-work" not in [one.rule for one in rest]


def test_good_names_the_line_of_work_that_is_no_product(tmp_path: Path) -> None:
    first, *_ = found(loop(SORT, products=0), tmp_path)
    assert "in `normalized`, graph.py:28" in first.message


@pytest.mark.parametrize(
    ("name", "products", "rule"),
    [
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", 2, "unnamed-work"),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", 2, "unnamed-work"),
        ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", 20, "good"),  # less than half
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)64>>", 2, "good"),  # takes none
    ],
)
def test_of_attention_by_kernels_that_take_masks_the_mask_is_asked_about(
    tmp_path: Path, name: str, products: int, rule: str
) -> None:
    first, *_ = found(loop(name, first=name, products=products), tmp_path)
    assert first.rule == rule and (rule == "good" or "is_causal" in first.advice)


# ---- launches, and what makes them


def played(function: str) -> strangers.Machine:
    """Two masks are applied in each of 16 steps of a game, each a hidden read, in a function of their own or
    in one that holds the loop; launches set the pace in either.
    """
    m = strangers.started(stacks=True)
    for _ in range(20):
        for _ in range(16):
            m.place = (function, "/home/me/project/game.py", 12)
            for _ in range(40):
                m.launch(strangers.ADD, 3 * US)
            m.place = ("step", "/home/me/project/game.py", 50)
            for _ in range(20):
                m.launch(strangers.MUL, 3 * US)
            for _ in range(2):
                m.launch(strangers.NORM, 3 * US)
                m.item()
        m.place = strangers.HERE
        m.launch(strangers.ADAM, 20 * US)
    m.wait("cudaDeviceSynchronize")
    return m


def test_a_read_in_a_function_called_anew_answers_for_itself(tmp_path: Path) -> None:
    first, *rest = found(played("policy"), tmp_path)
    sync = next((one.gain or 0.0 for one in rest if one.rule == "sync-in-loop"), 0.0)
    assert first.rule == "launch-bound" and sync < 0.15


def test_reads_in_a_loop_of_the_function_answer_for_what_it_launches(tmp_path: Path) -> None:
    first, *_ = found(played("step"), tmp_path)
    assert first.rule == "sync-in-loop" and first.gain is not None and first.gain > 0.5


def verdict(rule: str, gain: float, severity: Severity) -> Verdict:
    return Verdict(rule, "", "found", "", severity, gain=gain, low=gain / 2, high=gain)


@pytest.mark.parametrize(
    ("verdicts", "order"),
    [
        ([("launch-bound", 0.7, "high"), ("sync-in-loop", 0.2, "medium")], [1, 0]),
        ([("launch-bound", 0.7, "high"), ("sync-in-loop", 0.09, "low")], [0, 1]),
        ([("launch-bound", 0.7, "high"), ("host-code", 0.2, "medium")], [0, 1]),
        ([("launch-bound", 0.3, "high"), ("nan-checks", 0.7, "high"), ("gil", 0.5, "high")], [1, 2, 0]),
        ([("unfused-elementwise", 0.4, "low"), ("host-code", 0.2, "medium")], [1, 0]),
    ],
)
def test_alarms_come_first_and_what_makes_launches_before_them(
    verdicts: list[tuple[str, float, Severity]], order: list[int]
) -> None:
    told = [verdict(*one) for one in verdicts]
    assert [told.index(one) for one in sorted(told, key=ranking(told))] == order


# ---- cuDNN's search


@pytest.mark.parametrize("kernels", [1, 8])
def test_the_search_of_cudnn_is_told_where_it_is_seen(tmp_path: Path, kernels: int) -> None:
    def convolves(m: strangers.Machine, step: int) -> None:
        strangers.compiles(m, step)
        for number in range(8):
            m.launch(f"sm90_xmma_fprop_implicit_gemm_tilesize{number % kernels}_cudnn", 20 * US)

    first, *_ = found(strangers.train(strangers.started(), after=convolves), tmp_path)
    assert first.rule == "compiling-in-loop"
    assert ("cudnn.benchmark" in first.message and "cudnn.benchmark" in first.advice) == (kernels > 1)


# ---- launches that nobody waited for


@pytest.mark.parametrize(("host", "waited"), [(40 * US, True), (2 * US, False)])
def test_launches_of_a_busy_gpu_count_for_less_where_they_would_set_the_pace(
    tmp_path: Path, host: int, waited: bool
) -> None:
    m = strangers.started()
    for _ in range(20):
        for _ in range(100):
            m.launch(strangers.SIMT, 100 * US, host=host)
        m.launch(strangers.ADAM, 20 * US, host=host)
    m.wait("cudaDeviceSynchronize")
    first, *_ = found(m, tmp_path)
    assert first.rule == "no-tensor-cores" and first.gain is not None and first.high is not None
    bound = 1 - (host + 5 * US) / (101 * US)  # with launches as they were recorded
    if waited:
        assert bound < first.gain < bound + 0.15 < first.high
    else:  # the GPU sets the pace then, too
        assert first.gain == pytest.approx(first.high / 1.05, abs=0.001)


# ---- iterations that grow


@pytest.mark.parametrize(
    ("lengths", "grows"),
    [
        ([400 + 40 * step for step in range(20)], True),
        ([400 + 5 * step for step in range(20)], False),  # by a quarter
        ([400 + 40 * (step % 10) for step in range(20)], False),
        ([1200 - 40 * step for step in range(20)], False),
    ],
)
def test_iterations_that_take_longer_and_longer(tmp_path: Path, lengths: list[int], grows: bool) -> None:
    m = strangers.started(stacks=True)
    m.place = ("decode", "/home/me/project/write.py", 31)
    for length in lengths:
        for _ in range(10):
            m.launch(strangers.TENSOR, length * US)
        m.launch(strangers.ADAM, 20 * US)
        m.item()
    first, *rest = found(m, tmp_path)
    assert ("growing-iterations" in [one.rule for one in (first, *rest)]) == grows
    if grows:
        assert (first.rule, first.severity) == ("growing-iterations", "medium")
        assert (
            first.gain == pytest.approx(1 - 520 / 780, abs=0.02)
            and "in `decode`, write.py:31" in first.message
        )


@pytest.mark.parametrize(
    ("blocks", "grows"),
    [
        (lambda step, use: (800 + step) * 32 * use, True),  # a token more each time, in two widths
        (lambda step, use: 800 * 32 * use, False),
        (lambda step, use: (800 + step * 7 % 40) * 32 * use, False),  # lengths by chance
        (lambda step, use: (800 + step // 20 * 64) * 32 * use, False),  # two sizes of batches
        (lambda step, use: (800 + step if use == 1 else 800) * 32, False),  # one small use of many grows
    ],
)
def test_kernels_that_have_ever_more_blocks(
    tmp_path: Path, blocks: Callable[[int, int], int], grows: bool
) -> None:
    m = strangers.started(stacks=True)
    m.place = ("write", "/home/me/project/write.py", 31)
    for step in range(40):
        for _ in range(4):
            m.launch(strangers.TENSOR, 200 * US)
            for use, length in ((1, 10 * US), (4, 40 * US)):
                m.launch(strangers.NORM, length, blocks=blocks(step, use))
    m.wait("cudaDeviceSynchronize")
    first, *rest = found(m, tmp_path)
    rules = [one.rule for one in (first, *rest)]
    assert ("growing-iterations" in rules) == grows
    if grows:
        one = next(v for v in (first, *rest) if v.rule == "growing-iterations")
        assert (
            one.severity == "medium" and "from 25,600 blocks on); 100.0 % of that in `write`" in one.message
        )
        assert (
            one.gain is not None and 0.8 < one.gain < 1 - 12 / 253
        )  # half of what launching takes is left, at least
