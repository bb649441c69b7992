"""How tiles are dealt: plans of Stream-K, loads of experts, counted by hand; bad tensors in one line."""

from dataclasses import replace
from typing import Any

import pytest

from labcode.errors import LabError
from labcode.experiments.compute.grouped import program as grouped_program
from labcode.experiments.compute.stream_k import program as stream_k_program
from labcode.kernels import mapped
from labcode.kernels.catalogue import Gpu, Problem
from labcode.kernels.topics import grouped, stream_k

H200 = Gpu("NVIDIA H200", 90, 132, 62914560, 232448, 2048)


def test_plans_counted_by_hand() -> None:
    tail = stream_k.plan("whole", (2176, 2048, 8192), 132)
    assert (tail.count, tail.full, tail.stages, tail.whole, tail.clusters) == (136, 136, 128, 136, 132)
    assert tail.share == pytest.approx(136 / 264)
    odd = stream_k.plan("hybrid", (4097, 4104, 4088), 132)
    assert (odd.count, odd.full, odd.stages, odd.whole) == (33 * 17, 32 * 16, 64, 32 * 16)
    assert odd.fields == (4097, 4104, 128, 256, 32, 16, 64, *odd.costs)
    full, thin, little = stream_k.FULL, stream_k.THIN, stream_k.LITTLE
    assert odd.costs == (thin, thin, little)
    assert odd.cost() == 64 * (512 * full + 16 * thin + 32 * thin + little)
    assert odd.cost(264) == odd.cost() - 64 * 264 * full
    pair = stream_k.plan("both", (4097, 4104, 4088), 132)
    assert (pair.tall, pair.count, pair.clusters, pair.whole) == (256, 17 * 17, 66, 16 * 16)
    aside = stream_k.plan("aside", (4097, 4104, 4088), 132)
    assert (aside.m, aside.n, aside.count, aside.full, aside.clusters) == (4096, 4096, 16 * 16, 16 * 16, 66)
    assert stream_k.plan("aside", (4105, 4105, 64), 132).fields[:2] == (4105, 4105)  # nine are no longer few
    assert stream_k.plan("aside", (130, 8, 64), 132).fields[:2] == (128, 8)
    assert stream_k.plan("aside", (4, 260, 64), 132).fields[:2] == (4, 256)
    low = stream_k.plan("low", (16, 4096, 14336), 132)
    assert (low.count, low.cuts, low.ring[1]) == (32, 4, 12 * (16 + 128) * 128 + 1024)
    assert not stream_k.plan("low", (17, 4096, 14336), 132).low
    halves = stream_k.plan("halves", (16, 4096, 14336), 132)
    assert (halves.count, halves.cuts, halves.parts, halves.clusters) == (64, 2, 1, 64)
    assert halves.ring == ("FewHalves", 6 * (2 * 16 * 128 + 128 * 128) + 2 * 16 * 36 * 4 + 1024)
    more = stream_k.plan("halves", (64, 4096, 14336), 132)
    assert (more.clusters, more.ring) == (64, ("MoreHalves", 12 * (64 + 64) * 128 + 2 * 64 * 36 * 4 + 1024))
    pairs = stream_k.plan("halves", (128, 4096, 14336), 132)
    assert (pairs.count, pairs.cuts, pairs.parts, pairs.clusters) == (32, 4, 2, 64)
    assert pairs.ring == ("Ring<128, 6, 0>", 6 * (128 + 128) * 128 + 64 * 128 * 4 + 1024)
    assert stream_k.plan("halves", (300, 5000, 64), 132).cuts == 2  # half of one stage: one block has none
    thin_one = stream_k.plan("stream_k", (16, 4096, 14336), 132)
    assert (thin_one.count, thin_one.full, thin_one.whole, thin_one.clusters) == (16, 0, 0, 132)
    assert stream_k.plan("split", (16, 4096, 14336), 132).cuts == 8
    assert stream_k.plan("cluster", (16, 4096, 14336), 132).cuts == 8
    assert stream_k.plan("cluster", (4096, 4096, 4096), 132).cuts == 1
    assert stream_k.plan("hybrid", (2176, 2048, 8192), 132).whole == 0
    joint = stream_k.plan("joint", (2176, 2048, 8192), 132)
    assert (joint.whole, joint.cuts, joint.clusters) == (132, 33, 132)
    assert joint.share == pytest.approx(136 / 132 / (1 + 4 / 128))
    few = stream_k.plan("joint", (16, 4096, 14336), 132)
    assert (few.whole, few.cuts, few.clusters) == (0, 8, 128)
    early = stream_k.plan("early", (16, 4096, 14336), 132)
    assert (early.count, early.cuts, early.clusters) == (32, 4, 128)
    assert early.ring == ("Ring<128, 6, 0>", 6 * (128 + 128) * 128 + 1024)  # a stage: 64 deep, 128 bytes
    filled = stream_k.plan("joint", (4096, 4096, 4096), 132)
    assert (filled.whole, filled.cuts, filled.clusters) == (512, 1, 132)  # a fourth wave that is nearly full


@pytest.mark.parametrize("name", stream_k.WAYS)
def test_plans_need_no_more_than_the_gpu_has(name: str) -> None:
    for shape in (*stream_k.SHAPES.values(), (1, 1, 1), (5000, 1, 9), (1, 5000, 1)):
        plan = stream_k.plan(name, shape, 132)
        assert plan.way.cut in ("cluster", "halves", "pairs") or 1 <= plan.clusters * plan.way.blocks <= 132
        assert plan.ring[1] + 256 <= H200.shared_bytes
        assert plan.whole <= plan.count and (plan.way.cut in ("none", "joint") or plan.whole <= plan.full)
        assert 0 < plan.share <= 1


@pytest.mark.parametrize(
    ("shape", "places", "least", "most"),
    [
        ((4097, 4104, 4088), 132, 3.56, 4.0),  # 8 of 66 have three tiles, and two of them with strips
        ((4096, 4104, 4088), 132, 3.56, 4.0),
        ((4096, 4096, 4096), 132, 3.0, 4.0),  # no strips
        ((8200, 8200, 64), 132, 15.28, 16.0),  # 34 of 66 have fifteen; 32 of them one with strips
        ((385, 8200, 64), 132, 1.0, 1.28),
        ((2056, 776, 64), 10, 5.12, 5.28),  # 24 tiles, 8 of them with strips, 5 clusters
        ((129, 264, 64), 132, 1.28, 1.28),
        ((4240, 300, 64), 132, 1.0, 1.0),  # neither side has a few
        ((1, 8, 8), 132, 1.0, 1.0),
    ],
)
def test_strips_go_to_who_has_the_least_to_do(
    shape: tuple[int, int, int], places: int, least: float, most: float
) -> None:
    plan = stream_k.plan("along", shape, places)
    right, below = shape[1] > plan.n, shape[0] > plan.m
    order = plan.order(right, below)
    assert sorted(entry // 4 for entry in order) == list(range(plan.count))
    at = [(*plan.place(entry // 4), entry % 4) for entry in order]
    assert len({one[:2] for one in at}) == plan.count
    rows, columns = -(-plan.m // plan.tall), -(-plan.n // stream_k.WIDE)
    assert sorted(row for row, _, sides in at if sides & 1) == list(range(rows)) * right
    assert sorted(column for _, column, sides in at if sides & 2) == list(range(columns)) * below
    each = [order[one :: plan.clusters] for one in range(plan.clusters)]
    for mine in each:  # those with strips first: by its first one a cluster knows
        assert [entry % 4 > 0 for entry in mine] == sorted((entry % 4 > 0 for entry in mine), reverse=True)
    loads = [len(mine) + stream_k.STRIPS * sum(entry % 4 > 0 for entry in mine) for mine in each]
    assert (min(loads), max(loads)) == pytest.approx((least, most))


def test_loads_of_experts() -> None:
    rows, _, _, experts = grouped.SHAPES["small"]
    found = grouped.loads(rows, experts)
    assert (sum(found), len(found), sorted(found)[:3]) == (rows, experts, [0, 0, 1])
    assert found != grouped.loads(rows, experts, seed=2)
    assert grouped.loads(10, 4, even=True) == (2, 3, 3, 2)
    assert sum(grouped.loads(1, 64)) == 1
    assert grouped.tiles([0, 1, 128, 129], 300) == (0 + 1 + 1 + 2) * 2
    assert grouped.filled([128], 256, False) == 1
    assert grouped.filled([1, 64], 100, True) == pytest.approx(65 * 100 / (128 * 128))
    assert grouped.weights_bytes([0, 3, 1], 10, 20) == 2 * 2 * 10 * 20
    with pytest.raises(LabError, match=r"^loads: 0 rows for 3 experts; both count from 1$"):
        grouped.loads(0, 3)


@pytest.mark.parametrize("step", grouped.GROUPED.steps, ids=lambda step: step.name)
def test_blocks_suffice_for_whatever_the_loads_are(step: Any) -> None:
    for rows, n, k, experts in (*grouped.SHAPES.values(), (1, 8, 8, 192)):
        found = step.launch(Problem((rows, n, k, experts), "bfloat16"), H200)
        most = max(grouped.tiles(grouped.loads(rows, experts, seed), n) for seed in range(3))
        assert found.grid >= min(most, H200.sm_count)
        assert found.shared_bytes + 8 * grouped.MOST_EXPERTS + 256 <= H200.shared_bytes


def test_references_agree_with_one_matmul_an_expert() -> None:
    import numpy as np

    rng = np.random.default_rng(5)
    tokens, weights = rng.normal(size=(7, 3)), rng.normal(size=(3, 3, 2))
    out = grouped.reference(tokens, weights, np.array([2, 2, 7]))
    assert np.allclose(out[1], tokens[1] @ weights[0]) and np.allclose(out[6], tokens[6] @ weights[2])


def test_other_gpus_are_refused() -> None:
    for capability, told in ((80, "8.0"), (100, "10.0")):
        with pytest.raises(LabError, match=rf"^pair: needs compute capability 9.0 and this GPU has {told}$"):
            mapped.require_hopper("pair", replace(H200, compute_capability=capability))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((0, 8), (8, 8), (0, 8)), r"^pair: shapes \[\(0, 8\), .*give matrices, none empty$"),
        (((8, 8, 1), (8, 8), (8, 8)), r"^pair: shapes \[\(8, 8, 1\), .*give matrices, none empty$"),
        (
            ((4, 8), (7, 6), (4, 6)),
            r"^pair: shapes .* do not fit: \(m, k\), \(k, n\) and \(m, n\) are wanted$",
        ),
        (((4, 8), (8, 6), (4, 6)), r"^pair: the matrices must lie on one GPU; move them with \.cuda\(\)$"),
    ],
)
def test_matrices_that_do_not_fit(shapes: Any, message: str) -> None:
    torch = pytest.importorskip("torch")
    tensors = [torch.ones(shape, dtype=torch.bfloat16) for shape in shapes]
    with pytest.raises(LabError, match=message):
        stream_k_program.call_of(torch, "pair", stream_k_program.Operands(*tensors), H200)


def test_types_and_strides_of_matrices() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(8, 8, dtype=torch.bfloat16)
    for one, message in (
        (x.float(), r"^whole: takes bfloat16, not float32$"),
        (x[:, ::2].repeat(1, 2).t(), r"^whole: the elements must lie without gaps; call \.contiguous\(\)$"),
    ):
        with pytest.raises(LabError, match=message):
            stream_k_program.check("whole", stream_k_program.Operands(one, x, x))


@pytest.mark.parametrize(
    ("tokens", "weights", "ends", "out", "message"),
    [
        ((4, 8), (8, 8), (1,), (4, 8), r"^queue: shapes .*; give tokens \(t, k\), weights \(e, k, n\), "),
        ((0, 8), (2, 8, 8), (2,), (0, 8), r"^queue: shapes .*, none empty$"),
        ((4, 8), (2, 9, 8), (2,), (4, 8), r"^queue: shapes .* do not fit: \(t, k\), \(e, k, n\), \(e\) and "),
        ((4, 8), (2, 8, 8), (3,), (4, 8), r"^queue: shapes .* do not fit: "),
        (
            (4, 8),
            (2, 8, 8),
            (2,),
            (4, 8),
            r"^queue: the tensors must lie on one GPU; move them with \.cuda\(\)$",
        ),
    ],
)
def test_experts_that_do_not_fit(tokens: Any, weights: Any, ends: Any, out: Any, message: str) -> None:
    torch = pytest.importorskip("torch")
    half = [torch.ones(shape, dtype=torch.bfloat16) for shape in (tokens, weights, out)]
    given = grouped_program.Operands(half[0], half[1], torch.ones(ends, dtype=torch.int32), half[2])
    with pytest.raises(LabError, match=message):
        grouped_program.call_of(torch, "queue", given, H200)


def test_types_of_experts() -> None:
    torch = pytest.importorskip("torch")
    x, w = torch.ones(4, 8, dtype=torch.bfloat16), torch.ones(2, 8, 8, dtype=torch.bfloat16)
    given = grouped_program.Operands(x, w, torch.ones(2, dtype=torch.int64), x)
    with pytest.raises(LabError, match=r"^queue: ends of int32, not int64$"):
        grouped_program.check("queue", given)


@pytest.mark.parametrize("program", [stream_k_program, grouped_program])
@pytest.mark.parametrize(("flag", "value"), [("--k", "0"), ("--repetitions", "0"), ("--n", "x")])
def test_bad_flags(program: Any, flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main([flag, value])
    assert ended.value.code == 2
    assert f"argument {flag}: " in capsys.readouterr().err


def test_a_step_there_is_not() -> None:
    with pytest.raises(LabError, match=r"^stream_k: no step best; its steps are whole, split, cluster, "):
        stream_k_program.main(["--steps", "best"])


SIZES = ("1 1 1", "1 8 8", "33 65 17", "257 264 72", "300 504 712", "16 640 4096", "130 257 1000")


@pytest.mark.gpu
@pytest.mark.parametrize("size", SIZES)
def test_products_are_right(size: str) -> None:
    flags = [word for pair in zip(("--m", "--n", "--k"), size.split(), strict=True) for word in pair]
    assert stream_k_program.main(["--variant", "any", *flags, "--repetitions", "1"]) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("size", ["1 8 8 1", "100 264 72 5", "1000 504 200 16", "5000 1408 512 64"])
def test_experts_are_right(size: str) -> None:
    names = ("--rows", "--n", "--k", "--experts")
    flags = [word for pair in zip(names, size.split(), strict=True) for word in pair]
    assert grouped_program.main(["--variant", "any", *flags, "--repetitions", "1"]) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("program", [stream_k_program, grouped_program])
def test_nan_and_infinities_stay_where_they_belong(program: Any) -> None:
    flags = ["--variant", "any", "--values", "special", "--repetitions", "1"]
    assert program.main(flags) == 0


@pytest.mark.gpu
def test_rows_that_miss_16_bytes_are_one_line() -> None:
    with pytest.raises(LabError, match=r"^by_expert: n = 65 and k = 64 must be multiples of 8, and arrays "):
        grouped_program.main(["--variant", "any", "--n", "65", "--k", "64"])
