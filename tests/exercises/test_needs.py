from collections.abc import Iterator

import pytest

from labcode.grading import needs
from labcode.grading.records import Need


@pytest.fixture(autouse=True)
def ask_anew() -> Iterator[None]:
    needs.has.cache_clear()
    yield
    needs.has.cache_clear()


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import labcode.hardware.needs as machine

    asked: list[list[str]] = []

    def unmet(wanted: list[str]) -> list[str]:
        asked.append(wanted)
        return ["needs 2 GPUs, this machine has 1"] if wanted == ["2 gpus"] else []

    monkeypatch.setattr(machine, "unmet", unmet)
    assert needs.missing(("gpu", "2 gpus", "torch")) == ("2 gpus",)
    assert needs.missing(("2 gpus",)) == ("2 gpus",)
    assert asked == [["gpu"], ["2 gpus"], ["torch"]], "each is asked for once"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ((), "nothing"),
        (("gpu",), "a GPU"),
        (("gpu", "nvcc"), "a GPU and nvcc"),
        (("gpu", "2 gpus"), "2 GPUs"),
        (("2 gpus", "nsys", "torch"), "2 GPUs, nsys and PyTorch"),
    ],
)
def test_in_words(wanted: tuple[Need, ...], words: str) -> None:
    assert needs.in_words(wanted) == words
