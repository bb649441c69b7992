"""Codes of texts in a buffer: the same as those of a dictionary, whatever the texts are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labcode.reports.nsys import texts as nsys_texts
from labcode.reports.nsys.texts import TextCodes

TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "a", "a\0", "a\0\0", "\0", "x" * 8, "x" * 7 + "y", "x" * 16, "z" * 511, "z" * 600]),
)


def add(codes: TextCodes, texts: Sequence[bytes], between: bytes) -> list[int]:
    """The codes of texts that lie one behind the other."""
    length = np.array([len(text) for text in texts], np.int64)
    start = 64 + np.cumsum(length + len(between)) - length
    data = bytes(64) + b"".join(between + text for text in texts) + b"\xff" * 64
    found: list[int] = codes.add(np.frombuffer(data, np.uint8), start, start + length).tolist()
    return found


def expected(texts: Sequence[bytes], seen: dict[bytes, int]) -> list[int]:
    return [seen.setdefault(text, len(seen)) for text in texts]


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(st.lists(TEXTS, max_size=30), max_size=4), between=st.binary(max_size=3))
def test_the_same_as_a_dictionary(parts: list[list[str]], between: bytes) -> None:
    codes, seen = TextCodes(), dict[bytes, int]()
    for part in parts:
        texts = [text.encode() for text in part]
        assert add(codes, texts, between) == expected(texts, seen)
    assert codes.texts() == [text.decode() for text in seen]


@pytest.mark.parametrize("distinct", [3, 2000, 40_000])
def test_many_rows(distinct: int) -> None:
    rng = np.random.default_rng(1)
    codes, seen = TextCodes(), dict[bytes, int]()
    for _ in range(3):
        texts = [f"operator {i}{'!' * (i % 11)}".encode() for i in rng.integers(0, distinct, 20_000).tolist()]
        assert add(codes, texts, b"\x07") == expected(texts, seen)


def test_texts_of_the_same_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys_texts, "_FACTORS", np.zeros_like(nsys_texts._FACTORS))
    codes, seen = TextCodes(), dict[bytes, int]()
    for _ in range(3):
        texts = [f"text {i}".encode() for i in range(9)]
        assert add(codes, texts, b"") == expected(texts, seen)


def test_known_texts_are_not_looked_up_one_by_one() -> None:
    codes = TextCodes()
    texts = [b"forward", b"backward of a layer", b"optimizer"]
    add(codes, texts, b"")
    codes._seen.clear()  # what is only found there gets a new code
    assert add(codes, texts * 5, b"") == [0, 1, 2] * 5


def test_bytes_that_are_no_text() -> None:
    codes = TextCodes()
    assert add(codes, [b"\xff\xfe"], b"") == [0]
    assert codes.texts() == ["\ufffd\ufffd"]
