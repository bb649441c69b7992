"""Text and tokens: UTF-8 bytes are tokens 0 to 255, and one more ends a text."""

from __future__ import annotations

from collections.abc import Iterable

END = 256
KNOWN = 257


def encode(text: str) -> list[int]:
    """The tokens of a text."""
    return list(text.encode("utf-8"))


def decode(tokens: Iterable[int]) -> str:
    """The text of tokens up to its end; what is no byte or no UTF-8 becomes the replacement character."""
    out = bytearray()
    for token in tokens:
        if token == END:
            break
        out += bytes([token]) if 0 <= token < END else "\ufffd".encode()
    return out.decode("utf-8", errors="replace")
