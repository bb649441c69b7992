"""Arithmetic of the decoder: FLOPs against counts by hand and against products multiplied out."""

import pytest

from labcode.analysis.lm import decoder
from labcode.analysis.lm.decoder import SIZES, Size

SMALL = SIZES["small"]


def test_scores_of_one_block_of_the_small_model_at_512_tokens() -> None:
    parts = decoder.attention_flops(4, SMALL.heads, 512, SMALL.d_head)
    assert parts["scores"] == parts["values"] == 1_610_612_736
    assert parts["softmax"] == 62_914_560
    assert parts["scores"] / parts["softmax"] == 25.6


def test_parts_of_the_small_model_by_hand() -> None:
    parts = decoder.forward_flops(SMALL, 4, 512)
    assert parts == {
        "projections": 12 * 7_247_757_312,  # 2 · 2048 · 768 · 2304
        "scores": 12 * 1_610_612_736,
        "softmax": 12 * 62_914_560,
        "values": 12 * 1_610_612_736,
        "output": 12 * 2_415_919_104,  # 2 · 2048 · 768 · 768
        "feed-forward": 12 * 19_327_352_832,  # 2 products of 2 · 2048 · 768 · 3072
        "logits": 31_457_280_000,  # 2 · 2048 · 768 · 10,000
    }
    forward = decoder.matmul_flops(SMALL, 4, 512)
    assert forward == sum(parts.values()) - parts["softmax"]
    assert decoder.matmul_flops(SMALL, 4, 512, backward=True) == 3 * forward


def test_flops_are_those_of_products_multiplied_out() -> None:
    size, batch, context = Size(6, 10, 3, 2, vocabulary=7), 2, 5
    d, tokens = size.d_model, batch * context

    def product(m: int, k: int, n: int) -> int:
        return sum(2 for _ in range(m) for _ in range(n) for _ in range(k))

    heads = batch * size.heads
    block = product(tokens, d, 3 * d) + product(tokens, d, d) + 2 * product(tokens, d, 10)
    block += heads * (product(context, 3, context) + product(context, context, 3))
    assert decoder.matmul_flops(size, batch, context) == 3 * block + product(tokens, d, 7)


def test_parameters_of_the_largest_size_are_about_its_name() -> None:
    assert decoder.parameter_count(SIZES["2.7B"], 1024) == pytest.approx(2.6e9, rel=0.03)
    assert decoder.training_state_bytes(SIZES["small"], 512) == 16 * decoder.parameter_count(SMALL, 512)


def test_bytes_of_tensors_by_hand() -> None:
    assert decoder.residual_bytes(SMALL, 4, 512) == 4 * 4 * 512 * 768
    assert decoder.residual_bytes(SMALL, 4, 512, itemsize=2) == 2 * 4 * 512 * 768
    assert decoder.scores_bytes(SMALL, 4, 512) == 4 * 4 * 12 * 512 * 512


@pytest.mark.parametrize("name", SIZES)
def test_heads_divide_the_width(name: str) -> None:
    assert SIZES[name].d_head * SIZES[name].heads == SIZES[name].d_model
