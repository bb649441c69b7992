"""The paged-decode workload: its cases, what its implementations refuse, its reference; right on a GPU."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from labcode.errors import LabError, ToolError
from labcode.experiments.serving.paged_decode import program as paged_decode
from labcode.experiments.serving.paged_decode import steps
from labcode.kernels import launch as launching
from labcode.kernels.catalogue import Gpu
from labcode.kernels.topics import paged_decode as topic

H200 = Gpu("NVIDIA H200", 90, 132, 62914560, 232448, 2048)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def made(torch: Any, lengths: list[int], *flags: str) -> tuple[steps.Cache, Any]:
    given = paged_decode.command_line().parse_args(["benchmark", *flags])
    return paged_decode.make(torch, lengths, given, "cpu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: command"),
        (["benchmark", "--batches", "0"], "argument --batches: 0 is not between 1 and 65535"),
        (["benchmark", "--tokens", "64,x"], "argument --tokens: 'x' is not a whole number"),
        (["benchmark", "--lengths", "odd"], "argument --lengths: invalid choice: 'odd'"),
        (["benchmark", "--implementations", "fast"], "'fast' is not one of heads, groups, pages, tensor, "),
        (["benchmark", "--page", "0"], "argument --page: 0 is not between 1 and 65536"),
    ],
)
def test_bad_flags_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        paged_decode.main(arguments)
    assert done.value.code == 2
    assert message in capsys.readouterr().err


def test_without_torch_or_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "torch", None)
        with pytest.raises(ToolError, match="this workload needs PyTorch, which cannot be imported here"):
            paged_decode.main(["benchmark"])
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ToolError, match="no NVIDIA GPU that PyTorch can use"):
        paged_decode.main(["benchmark"])


def test_uneven_lengths_have_the_mean_that_was_asked_for() -> None:
    assert paged_decode.lengths_of(3, 7, "even", 1) == [7, 7, 7]
    found = sorted(paged_decode.lengths_of(64, 4096, "uneven", 1), reverse=True)
    assert found[0] == pytest.approx(found[1] * 2, abs=2) == pytest.approx(found[3] * 4, abs=4)
    assert sum(found) == pytest.approx(64 * 4096, abs=64)
    assert min(paged_decode.lengths_of(300, 1, "uneven", 1)) == 1


@pytest.mark.parametrize(("page", "heads"), [(16, 4), (64, 16)])
def test_pages_and_the_cache_in_one_piece_hold_the_same(torch: Any, page: int, heads: int) -> None:
    cache, out = made(torch, [70] * 3, "--page", str(page), "--heads", str(heads), "--kv-heads", "2")
    steps.check(cache, out)
    assert sorted(cache.table.flatten().tolist()) == list(range(cache.pool.shape[1]))
    assert cache.table.flatten().tolist() != list(range(cache.pool.shape[1]))
    keys, values = (one.float() for one in cache.whole)  # type: ignore[union-attr]
    exact = torch.nn.functional.scaled_dot_product_attention(
        cache.q[:, :, None].float(), keys, values, enable_gqa=True
    )[:, :, 0]
    expected = paged_decode.reference(torch, cache)
    assert paged_decode.error_of(torch, exact, expected, cache.group) < 1e-6
    exact[-1, -1] += 1
    assert paged_decode.error_of(torch, exact, expected, cache.group) > 1e-2
    exact[0, 0, 0] = float("nan")
    assert paged_decode.error_of(torch, exact, expected, cache.group) == float("inf")


def test_the_catalogues_reference_is_that_of_the_workload(torch: Any) -> None:
    cache, out = made(torch, [5, 100, 33], "--heads", "16", "--kv-heads", "4")
    assert cache.whole is None
    wide = [cache.q.double(), *cache.pool.double()]
    found = topic.attend(*(x.numpy() for x in (*wide, cache.table, cache.lengths)))
    assert (
        paged_decode.error_of(torch, torch.from_numpy(found), paged_decode.reference(torch, cache), 4) < 1e-12
    )
    cache.lengths[1] = 0
    assert not topic.attend(*(x.numpy() for x in (*wide, cache.table, cache.lengths)))[1].any()
    del out


def test_cost_model_and_parts() -> None:
    kernel = topic.PAGED_DECODE
    problem = kernel.timed[0]
    assert kernel.bytes_moved(problem) == 16 * 16384 * 8 * 128 * 2 * 2 + 2 * 16 * 32 * 128 * 2
    assert kernel.flops(problem) == 4 * 16 * 16384 * 32 * 128
    assert (topic.chunk(16384, 8, H200), topic.parts(16384, 8, H200)) == (4, 64)
    assert (topic.chunk(64, 8, H200), topic.parts(1, 8, H200)) == (1, 1)
    assert topic.parts(1 << 20, 4000, H200) == 1
    table = topic.shuffled((4, 5), 3)
    assert sorted(table.flatten().tolist()) == list(range(20)) and table.dtype == np.int32


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--heads", "12", "--kv-heads", "4"], r"^12 heads over 4 of the cache: 1, 2, 4 or 8 may share one$"),
        (["--heads", "5", "--kv-heads", "2"], r"^5 heads over 2 of the cache: 1, 2, 4 or 8 may share one$"),
        (["--page", "24"], r"^pages of 24 tokens; take one of 16, 32, 64, 128, 256$"),
        (["--page", "1"], r"^pages of 1 tokens; take one of 16, 32, 64, 128, 256$"),
    ],
)
def test_what_it_cannot_take_is_one_line(torch: Any, flags: list[str], message: str) -> None:
    cache, out = made(torch, [40, 40], *flags)
    with pytest.raises(LabError, match=message):
        steps.call_of(torch, "balanced", cache, out)


def test_where_and_what_arrays_are(torch: Any) -> None:
    cache, out = made(torch, [40, 3])

    def said(**changes: Any) -> str:
        with pytest.raises(LabError) as error:
            steps.check(steps.Cache(**{**vars(cache), **changes}), changes.get("out", out))
        return str(error.value)

    shifted = torch.empty(cache.q.numel() + 1, dtype=torch.bfloat16)[1:].view(cache.q.shape)
    assert said(q=shifted) == "takes tensors that start on 16 bytes; copy them with .clone()"
    assert said(q=cache.q.transpose(0, 1).contiguous().transpose(0, 1)).startswith("the elements must lie ")
    assert said(q=cache.q.float()) == "takes queries, cache and result in bfloat16"
    assert said(table=cache.table.long()) == "takes table and lengths in int32"
    assert said(q=cache.q[:0]).startswith(
        "queries (0, 32, 128), pool (2, 4, 8, 16, 128): give batch × heads "
    )
    assert said(q=cache.q[:, :, :64].contiguous()) == "takes heads of 128 dimensions, not 64 and 128"
    with pytest.raises(LabError, match=r"^flash: takes the cache in one piece, all sequences of one length$"):
        steps.call_of(torch, "flash", cache, out)
    with pytest.raises(LabError, match=r"^fast: no such implementation; there are heads, groups, pages, "):
        steps.call_of(torch, "fast", cache, out)


def test_an_older_gpu_is_told_which_step_it_can_run(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    older = Gpu("Tesla T4", 75, 40, 4194304, 65536, 1024)
    monkeypatch.setattr(launching, "this_gpu", lambda device: older)
    cache, out = made(torch, [40, 40])
    with pytest.raises(
        LabError, match=r"^tensor: needs compute capability 8\.0 and this GPU has 7\.5; take "
    ):
        steps.call_of(torch, "tensor", cache, out)


def test_flashinfer_gets_pages_by_sequence_and_its_faults_are_one_line(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, out = made(torch, [33, 16], "--heads", "8", "--kv-heads", "2")
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    with pytest.raises(
        ToolError, match=r"^flashinfer: cannot be imported here .*install flashinfer-python`$"
    ):
        steps.call_of(torch, "flashinfer", cache, out)

    class Wrapper:
        def __init__(self, workspace: Any, layout: str, use_tensor_cores: bool) -> None:
            assert (layout, use_tensor_cores) == ("HND", True)

        def plan(self, starts: Any, indices: Any, last: Any, *sizes: int, **types: Any) -> None:
            assert starts.tolist() == [0, 3, 4] and last.tolist() == [1, 16]
            assert indices.tolist() == [*cache.table[0].tolist(), int(cache.table[1, 0])]
            assert sizes == (8, 2, 128, 16)

        def run(self, q: Any, pools: Any) -> Any:
            arrays = [x.float().numpy() for x in (q, *pools)]
            return topic.attend(arrays[0], arrays[1], arrays[2], cache.table.numpy(), [33, 16])

    fake = SimpleNamespace(BatchDecodeWithPagedKVCacheWrapper=Wrapper)
    monkeypatch.setattr(steps, "WORKSPACE_BYTES", 16)
    monkeypatch.setitem(sys.modules, "flashinfer", fake)
    found: Any = steps.call_of(torch, "flashinfer", cache, out)()
    expected = paged_decode.reference(torch, cache)
    assert paged_decode.error_of(torch, torch.from_numpy(found), expected, 4) < 1e-6
    fake.BatchDecodeWithPagedKVCacheWrapper = lambda *_, **__: 1 / 0
    with pytest.raises(LabError, match=r"^flashinfer: its decode cannot be built here \(division by zero\)$"):
        steps.call_of(torch, "flashinfer", cache, out)


@pytest.mark.gpu
@pytest.mark.parametrize("page", [16, 64])
def test_right_on_a_gpu(page: int, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    sizes = ["--batches", "1,7", "--tokens", "1,33,1000", "--page", str(page), "--repetitions", "1"]
    for lengths in ("even", "uneven"):
        flags = [*sizes, "--lengths", lengths, "--json", str(path)]
        assert paged_decode.main(["benchmark", *flags]) == 0
        rows = json.loads(path.read_text())["results"]["rows"]
        mine = [
            row
            for row in rows
            if row["kind"] == "step" and steps.IMPLEMENTATIONS[row["implementation"]].paged
        ]
        assert mine and not [row for row in mine if "left_out" in row]


@pytest.mark.gpu
@pytest.mark.parametrize("name", [step.name for step in topic.STEPS])
def test_what_is_no_number_stays_where_it_belongs(torch: Any, name: str) -> None:
    """NaN: of a query its row, of a key the rows of its group; a score of −∞ is a weight of 0."""
    given = paged_decode.command_line().parse_args(["benchmark"])
    cache, out = paged_decode.make(torch, [100, 100], given)
    cache.q[1, 5, 3] = float("nan")
    whole, page = cache.whole, int(cache.table[0, 2])
    assert whole is not None
    for to in (cache.pool[0, page, 3, 7], whole[0, 0, 3, 39]):
        to[9] = float("nan")
    cache.q[0, 0:4, 0] = 1
    for to in (cache.pool[0, page, 0, 7], whole[0, 0, 0, 39]):
        to[0] = float("-inf")
    steps.call_of(torch, name, cache, out)()
    bad = torch.isnan(out).any(dim=2).nonzero().tolist()
    assert bad == [[0, 12], [0, 13], [0, 14], [0, 15], [1, 5]]
    expected = paged_decode.reference(torch, cache)
    assert expected[:2] and float((out[0, :4].double() - expected[2][0]).abs().max()) < 2e-2
