"""Which experiments the value of a claim rests on, read from a page's cells."""

import pytest

from labcode.book.lineage import behind_line

KNOWN = {"multi_gpu", "lm_small", "lm_large", "sums"}
FIRST = """\
import labcode
from labcode import book
loop = book.record("loop", "a")
ranks, other = book.capture("multi_gpu", "a"), book.capture("loop", "a")
def of(size):
    local = book.record(f"lm_{size}", "a")
    return local
rows = []
for size in ("small",):
    rows.append(of(size))
table = {}
table["ranks"] = ranks.kernels()
ranks_too = ranks
loop.update(sums=1)
ranks = 1
"""


@pytest.mark.parametrize(
    ("claim", "behind"),
    [
        ("book.claim('', loop['x'], at_least=1)", set()),
        ("book.claim('', other.x, at_least=1)", set()),
        ("book.claim('', ranks_too.x, at_least=1)", {"multi_gpu"}),
        ("book.claim('', ranks, at_least=1)", set()),  # it was given another value
        ("book.claim('', table, at_least=1)", {"multi_gpu"}),
        ("book.claim('', max(rows), at_least=1)", {"lm_small", "lm_large"}),
        ("for row in rows:\n    book.claim('', row, at_least=1)", {"lm_small", "lm_large"}),
        ("book.claim('', book.record('sums', 'a'), at_least=1)", {"sums"}),
        ("book.claim(f'{x}', book.record(f'multi_{x}', 'a'), at_least=1)", {"multi_gpu"}),
        ("book.claim('', of.y, at_least=1)\nranks = table", {"lm_small", "lm_large"}),
        ("%magic", set()),
    ],
)
def test_what_a_claim_rests_on(claim: str, behind: set[str]) -> None:
    assert behind_line([FIRST, claim], 1, KNOWN) == behind


def test_cells_before_count_and_later_statements_do_not() -> None:
    cells = ["from labcode import book", "a = book.record('sums', 'r')", "b = a"]
    cells += ["book.claim('', b)\nb = book.capture('multi_gpu', 'r')"]
    assert behind_line(cells, 1, KNOWN) == {"sums"}
    assert behind_line(cells, 2, KNOWN) == {"multi_gpu"}
