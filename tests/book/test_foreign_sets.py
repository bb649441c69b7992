"""Sets of strange GPUs, halves, damaged and aged ones: the book is built, and nothing is claimed for them."""

import json
import shutil
from pathlib import Path

import pytest

from labcode import store
from labcode.book.build import build
from labcode.errors import LabError
from labcode.hardware.specs import find_spec
from tests.book import test_build
from tests.book.sets import write_set
from tests.book.test_build import HEADER, PAGE, html, text_of, write_page

pytestmark = pytest.mark.filterwarnings("ignore:.*HandleFootnoteTransform")  # the theme's own affair

house = test_build.house
OTHER = (
    HEADER
    + """# Another page

```{captures-used} fusion
```

```{code-cell} python
from labcode import book
from labcode.hardware.specs import find_spec

fused = book.record("fusion", "record")["results"]["time_us"]
gpu = book.holder("fusion").machine_of("fusion")["gpus"][0]["name"]
sheet = find_spec(gpu)
book.claim("fusing helps", fused, at_most=6, unit="µs")
print("data sheet:", f"{sheet.memory_gb_s:,} GB/s" if sheet else "none")
```
"""
)
FAST = "page#the-copy-is-fast"
FUSED = "other#fusing-helps"


@pytest.fixture
def two_pages(house: Path, builds_at_hand: Path) -> Path:
    """A book of two pages; the shipped set has what both show, its claims recorded (by the first build)."""
    write_page(house, "page", PAGE)
    write_page(house, "other", OTHER)
    write_page(house, "index", test_build.INDEX.replace("page\n", "page\nother\n"))
    claims = write_set(house / "captures", "h200", 10.0, more={"fusion": 5.0}) / "claims.json"
    kept = builds_at_hand / "claims of two pages.json"
    if not kept.exists():
        assert build(None, "html", update_claims=True) == 0
        shutil.copy(claims, kept)
    shutil.copy(kept, claims)
    return house


def edit(folder: Path, change) -> None:  # type: ignore[no-untyped-def]
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def of_gpu(folder: Path, gpu: str) -> None:
    edit(folder, lambda manifest: manifest["machines"]["m1"].update(gpus=[{"name": gpu}], gpu_count=1))


def recorded(house: Path, name: str) -> dict[str, str]:
    claims = json.loads((house / "captures" / name / "claims.json").read_text())["claims"]
    return {key: claim["shown"] for key, claim in claims.items()}


@pytest.mark.parametrize(
    ("gpu", "label", "sheet"),
    [
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090", True),
        ("NVIDIA B9000 Unheard-of", "B9000 Unheard-of", False),
    ],
)
def test_a_set_of_a_strange_gpu_builds_strict_with_and_without_its_data_sheet(
    two_pages, capsys, gpu, label, sheet
):
    of_gpu(write_set(two_pages / "captures", "mine", 17.0, more={"fusion": 4.0}), gpu)
    assert (find_spec(gpu) is not None) is sheet
    capsys.readouterr()
    assert build("mine", "html", update_claims=True, strict=True) == 0
    assert capsys.readouterr().err == ""
    page = text_of(html(two_pages, "page"))
    assert f"1 × {gpu}" in page and "does not hold on this GPU" in page
    other = text_of(html(two_pages, "other"))
    assert "lab-lacking" not in html(two_pages, "other")
    assert ("data sheet: none" in other) is not sheet
    assert recorded(two_pages, "mine") == {FAST: "17.0\u202fµs", FUSED: "4.00\u202fµs"}
    assert build("h200", "html", strict=True) == 0  # beside the shipped set's its values stand
    assert f"{label}: ✗ 17.0\u202fµs" in text_of(html(two_pages, "page"))


def test_half_a_set_builds_strict_says_what_is_borrowed_and_claims_its_own_half(two_pages, capsys):
    of_gpu(write_set(two_pages / "captures", "mine", 17.0), "NVIDIA GeForce RTX 4090")
    capsys.readouterr()
    assert build("mine", "html", update_claims=True, strict=True) == 0
    assert capsys.readouterr().err == ""
    assert recorded(two_pages, "mine") == {FAST: "17.0\u202fµs"}
    other = text_of(html(two_pages, "other"))
    assert "Set mine does not have fusion. The page shows the H200 instead." in other
    assert "not in set mine: shown from set h200" in other
    assert "measured on H200, not on GeForce RTX 4090" in other
    assert "does not hold" not in other
    assert build("h200", "html", strict=True) == 0
    assert "GeForce RTX 4090" not in text_of(html(two_pages, "other"))


def test_two_halves_of_two_gpus_stand_beside_each_other(two_pages, capsys):
    """What neither set has comes from the shipped one, not from the other half."""
    of_gpu(write_set(two_pages / "captures", "mine", 17.0), "NVIDIA GeForce RTX 4090")
    yours = write_set(two_pages / "captures", "yours", 8.0, more={"fusion": 3.0})
    of_gpu(yours, "NVIDIA B200")
    edit(yours, lambda manifest: manifest["experiments"].pop("measuring"))
    assert build("yours", "html", update_claims=True, strict=True) == 0
    assert build("mine", "html", update_claims=True, strict=True) == 0
    assert (recorded(two_pages, "mine"), recorded(two_pages, "yours")) == (
        {FAST: "17.0\u202fµs"},
        {FUSED: "3.00\u202fµs"},
    )
    other = text_of(html(two_pages, "other"))
    assert "measured on H200, not on GeForce RTX 4090 · B200: ✓ 3.00\u202fµs" in other


def test_a_wrong_hash_costs_its_page_alone_and_is_named(two_pages, capsys):
    mine = write_set(two_pages / "captures", "mine", 7.0, more={"fusion": 4.0})
    (mine / "fusion/record.json").write_text("{}")
    for strict in (False, True):
        with pytest.raises(LabError, match=r"book/other\.md: a cell of this page failed"):
            build("mine", "html", update_claims=True, strict=strict)
        said = capsys.readouterr().err
        assert "changed since it was captured (its SHA-256 is not the manifest's)" in said
        assert "7.0\u202fµs" in text_of(html(two_pages, "page"))
    assert not (mine / "claims.json").exists()  # nothing is recorded of half a build


def test_an_experiment_of_an_older_book_is_borrowed_as_a_whole(two_pages, capsys):
    """The page asks for a run that the set's capture, made before there was such a run, does not have."""
    of_gpu(write_set(two_pages / "captures", "mine", 7.0, more={"fusion": 4.0}), "NVIDIA B200")

    def older(manifest) -> None:  # type: ignore[no-untyped-def]
        runs = manifest["experiments"]["fusion"]["runs"]
        runs["first"] = runs.pop("record")

    edit(two_pages / "captures/mine", older)
    assert store.older_runs(store.load_set("mine"), "fusion") == ("record",)
    assert store.holder("mine", "fusion").name == "h200" and store.holder("mine", "measuring").name == "mine"
    assert build("mine", "html", update_claims=True, strict=True) == 0
    assert capsys.readouterr().err == ""
    assert recorded(two_pages, "mine") == {FAST: "7.0\u202fµs"}
    other = text_of(html(two_pages, "other"))
    assert "Set mine has fusion of an older version of the book, without runs of today's." in other
    assert "run record not in set mine: shown from set h200" in other
    assert "measured on H200, not on B200" in other


def test_what_an_older_book_said_of_it_is_no_claim_of_today(two_pages):
    mine = write_set(two_pages / "captures", "mine", 7.0, more={"fusion": 4.0})
    assert build("mine", "html", update_claims=True) == 0
    assert FUSED in recorded(two_pages, "mine")
    edit(
        mine,
        lambda m: m["experiments"]["fusion"]["runs"].update(
            first=m["experiments"]["fusion"]["runs"].pop("record")
        ),
    )
    assert build("mine", "html", update_claims=True, strict=True) == 0
    assert FUSED not in recorded(two_pages, "mine")
    assert "recorded with the whole set" not in text_of(html(two_pages, "other"))


def test_a_set_of_the_first_schema_builds_marked_and_not_strict(two_pages, capsys):
    mine = write_set(two_pages / "captures", "mine", 7.0, more={"fusion": 4.0})
    edit(mine, lambda manifest: manifest.update(schema=1))
    edit(mine, lambda manifest: [e.update(sources=["program.py"]) for e in manifest["experiments"].values()])
    assert build("mine", "html") == 0
    assert "stale: the code changed since this was captured" in html(two_pages, "page")
    capsys.readouterr()
    assert build("mine", "html", strict=True) == 1
    assert "captures of measuring in set 'mine' are stale" in capsys.readouterr().err


def test_what_no_set_has_is_one_line(two_pages, capsys):
    edit(two_pages / "captures/h200", lambda manifest: manifest["experiments"].pop("fusion"))
    with pytest.raises(LabError, match=r"book/other\.md: a cell of this page failed"):
        build(None, "html")
    assert "no experiment 'fusion' in this set" in capsys.readouterr().err
