"""Builds of a very small book: its own pages and sets, the repository's configuration."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labcode import __version__
from labcode.book import notebooks
from labcode.book.build import _clean, build, run_sphinx
from labcode.book.sphinx import kept
from labcode.book.sphinx.extension import with_dashes
from labcode.errors import InputError, LabError, ToolError
from tests.book.sets import write_set

pytestmark = pytest.mark.filterwarnings("ignore:.*HandleFootnoteTransform")  # the theme's own affair

REPOSITORY = Path(__file__).parents[2]
HEADER = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n\n"
INDEX = "# A book\n\n```{toctree}\npage\nclaims\ncaptures\n```\n"
TIMES = "```{capture-times}\n```\n\n```{capture-times}\n:each:\n```\n"
PAGE = (
    HEADER
    + """# A page

```{captures-used} measuring
```

```{code-cell} python
from labcode import book

time = book.record("measuring", "record")["results"]["time_us"]
book.value("time", time, ".1f", "µs")
book.claim("the `copy` is fast", time, at_most=12, unit="µs", fmt=".1f")
```

It took {glue:text}`time`, and $t \\le T$.
"""
)


PICTURE = """
```{code-cell} python
import pandas as pd
from labcode.figures import lines

steps = pd.Series([5.0, 6.0], index=pd.Index([1.0, 2.0], name="step"), name="loop_ms")
book.figure(
    lambda: lines([1.0, 2.0], {"loop": steps.to_numpy()}, x_label="step", y_label="time (ms)"),
    alt="Two steps of a loop; the second takes a little longer.",
    caption="Two steps. Of a loop.",
    data={"loop": steps},
)
```
"""


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds_at_hand: Path) -> Path:
    """A checkout with one page, and sets where the claim of that page is true (h200) and false (my-l4)."""
    root = tmp_path / "house"
    (root / "_build").mkdir(parents=True)
    (root / "_build" / ".jupyter_cache").symlink_to(builds_at_hand)
    (root / "book" / "_static").mkdir(parents=True)
    shutil.copytree(REPOSITORY / "book" / "_templates", root / "book" / "_templates")
    shutil.copy(REPOSITORY / "conf.py", root / "conf.py")
    looks = ("custom.css", "icons.css", "search.css")
    for name in ("logo.svg", "favicon.svg", *looks, "search.js", "pictures.js", "frames.js"):
        shutil.copy(REPOSITORY / "book" / "_static" / name, root / "book" / "_static" / name)
    (root / "book" / "references.bib").touch()
    for pattern in ("switches.*", "terms.*"):
        for path in (REPOSITORY / "book" / "_static").glob(pattern):
            shutil.copy(path, root / "book" / "_static" / path.name)
    write_page(root, "index", INDEX)
    write_page(root, "page", PAGE)
    write_page(root, "claims", "# All claims\n\n```{all-claims}\n```\n")
    write_page(root, "captures", "# Captures\n\n```{all-captures}\n```\n\n" + TIMES)
    write_set(root / "captures", "h200", 10.0, warnings=("sampling was off",))
    write_set(root / "captures", "my-l4", 17.0)
    monkeypatch.setattr("multiprocessing.cpu_count", lambda: 1)  # forks of the tests' process take longer
    monkeypatch.setenv("LABCODE_HOME", str(root))
    monkeypatch.setenv("LABCODE_SETS", str(root / "captures"))
    for name in ("CAPTURES", "STRICT", "UPDATE_CLAIMS", "WEB", "FILES"):
        monkeypatch.setenv(f"LABCODE_{name}", "")
    monkeypatch.setenv("IPYTHONDIR", "")
    return root


def write_page(root: Path, name: str, text: str) -> None:
    (root / "book" / f"{name}.md").write_text(text, encoding="utf-8")


def text_of(page: str) -> str:
    """What a page says, without its tags."""
    plain = re.sub(r"</?(?:span|code|strong|a)\b[^>]*>", "", page)
    return re.sub(r"[ \n]+", " ", re.sub(r"<[^>]+>", " ", plain))


def html(root: Path, name: str) -> str:
    return (root / "_build" / "html" / f"{name}.html").read_text(encoding="utf-8")


def test_a_strict_build_of_true_claims_and_what_it_shows(house, capsys, monkeypatch):
    monkeypatch.setattr("multiprocessing.cpu_count", lambda: 2)
    assert build(None, "html", update_claims=True) == 0
    assert build(None, "html", strict=True) == 0
    assert capsys.readouterr().err == ""

    page = html(house, "page")
    assert 'id="claim-the-copy-is-fast"' in page
    assert "10.0\u202fµs" in page
    assert "lab-claim-holds" in page
    assert "<math" in page
    assert "4 × NVIDIA H200" in page
    assert "sampling was off" in page
    assert "Does not hold" not in page

    claims = json.loads((house / "_build" / "html" / "claims.json").read_text(encoding="utf-8"))
    assert claims["claims"]["page#the-copy-is-fast"]["shown"] == "10.0\u202fµs"
    listing = html(house, "claims")
    assert 'href="page.html#claim-the-copy-is-fast"' in listing
    assert "MY-L4" in listing

    times = re.sub(r"<[^>]+>|\s+", " ", html(house, "captures"))
    assert re.search(r"Recorded by +h200 +my-l4", times)
    assert re.search(r"measuring +42 +42", times)

    downloads = sorted(path.name for path in (house / "_build/html/_downloads").rglob("*.json"))
    assert downloads == ["record.json", "record.json"]  # of both sets, from the page of all captures


def test_a_strict_build_starts_from_nothing(tmp_path):
    for name in ("html", "doctrees", ".jupyter_cache"):
        (tmp_path / name / "kept").mkdir(parents=True)
    _clean(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_option_keeps_its_dashes_on_one_line():
    markup = '<code><span class="pre">nsys</span> <span class="pre">--trace=a,b</span></code> <b>--not</b>'
    kept = '<span class="pre"><span class="lab-spec">--t</span>race=a,b</span>'
    assert with_dashes(markup) == markup.replace('<span class="pre">--trace=a,b</span>', kept)


def test_a_warning_that_readers_would_see_fails_the_strict_build_and_is_named(house, capsys):
    write_page(
        house, "page", PAGE + "\n```{code-cell} python\nimport warnings\n\nwarnings.warn('odd')\n```\n"
    )
    assert build("h200", update_claims=True) == 0  # said, and shown
    assert "odd" in html(house, "page")
    assert "WARNING: stderr was found in the cell outputs" in capsys.readouterr().err
    assert build("h200", strict=True) == 1
    assert re.search(r"page\.md:\d+: WARNING: stderr was found in the cell outputs", capsys.readouterr().err)


def test_a_figure_that_is_not_its_table_fails_the_strict_build_and_is_named(house, capsys):
    write_page(house, "page", PAGE + PICTURE)
    assert build("h200", update_claims=True) == 0
    assert "WARNING" not in capsys.readouterr().err
    write_page(house, "page", PAGE + PICTURE.replace("[1.0, 2.0], {", "[1.0, 3.0], {"))
    assert build("h200", strict=True) == 1
    said = capsys.readouterr().err
    assert "page.md: WARNING: figure “Two steps”: “loop”: along “step”: point 2 is drawn at 3" in said
    assert build("h200") == 0  # said, and shown
    assert "page.md: WARNING: figure “Two steps”" in capsys.readouterr().err


def test_claims_that_were_not_recorded_or_share_a_key_fail_the_strict_build(house, capsys):
    twice = PAGE.replace("book.claim(", 'book.claim("the copy is fast", True)\nbook.claim(')
    write_page(house, "page", twice)
    assert build(None, "html", strict=True) == 1
    error = capsys.readouterr().err
    assert "two claims of this page have the key 'the-copy-is-fast'" in error
    assert (
        "claims.json is not what this build found: page#the-copy-is-fast: on the page, but not recorded"
        in error
    )
    assert "python -m labcode book --update-claims" in error


def test_a_claim_shows_its_value_on_the_other_sets_whichever_is_built(house, capsys):
    assert build(None, "html", update_claims=True) == 0
    assert "lab-claim-compare" not in html(house, "page")  # nothing is recorded of the other set yet
    assert build("my-l4", "html", strict=True) == 0
    assert build("my-l4", "html", update_claims=True) == 0
    assert capsys.readouterr().err == ""
    page = text_of(html(house, "page"))
    assert "✗ the copy is fast: 17.0\u202fµs (at most 12.0\u202fµs)" in page
    assert "does not hold on this GPU · H200: ✓ 10.0\u202fµs" in page
    assert "lab-claim-fails" in html(house, "page")
    assert "✗ 17.0\u202fµs ✓ 10.0\u202fµs" in text_of(html(house, "claims"))

    assert build("h200", "html", strict=True) == 0
    page = text_of(html(house, "page"))
    assert "✓ the copy is fast: 10.0\u202fµs (at most 12.0\u202fµs) MY-L4: ✗ 17.0\u202fµs" in page
    assert "✓ 10.0\u202fµs ✗ 17.0\u202fµs" in text_of(html(house, "claims"))


def test_a_bound_that_differs_is_said_and_two_sets_of_one_gpu_are_told_apart(house):
    write_page(house, "page", PAGE.replace("at_most=12", "at_most=time"))
    for name, time in (("my-l4", 17.0), ("other", 10.0)):
        manifest = write_set(house / "captures", name, time) / "manifest.json"
        manifest.write_text(manifest.read_text(encoding="utf-8").replace(f"A {name.upper()}", "A L4"))
        assert build(name, "html", update_claims=True) == 0
    assert build("h200", "html") == 0
    page = text_of(html(house, "page"))
    assert "L4 (my-l4): ✓ 17.0\u202fµs (at most 17.0\u202fµs) · L4 (other): ✓ 10.0\u202fµs " in page


def test_a_claim_that_depends_on_the_host_says_so(house):
    write_page(house, "page", PAGE.replace('unit="µs", fmt', 'unit="µs", host=True, fmt'))
    assert build(None, "html", update_claims=True) == 0
    assert build("my-l4", "html") == 0
    page = text_of(html(house, "page"))
    assert "does not hold on this GPU · depends on the host · H200: ✓ 10.0\u202fµs" in page
    assert "the copy is fast (depends on the host)" in text_of(html(house, "claims"))
    assert json.loads((house / "captures/h200/claims.json").read_text())["claims"]["page#the-copy-is-fast"][
        "host"
    ]


TWO = PAGE.replace(
    "It took",
    """```{captures-used} fusion
```

```{code-cell} python
fused = book.record("fusion", "record")["results"]["time_us"]
book.claim("fusing helps", time / fused, at_least=2)
book.claim("still fast", time, at_most=20)
```

It took""",
)


def test_claims_on_borrowed_experiments_are_not_recorded_as_the_sets_own(house, capsys):
    """An experiment that the set lacks is shown from the shipped set, and so are the claims about it."""
    write_page(house, "page", TWO)
    write_set(house / "captures", "h200", 10.0, more={"fusion": 5.0})
    write_set(house / "captures", "my-l4", 17.0, skipped={"fusion": "needs 40 GB"})
    assert build(None, "html", update_claims=True) == 0
    assert build("my-l4", "html", update_claims=True, strict=True) == 0
    assert capsys.readouterr().err == ""
    recorded = json.loads((house / "captures/my-l4/claims.json").read_text())["claims"]
    assert {key: claim["shown"] for key, claim in recorded.items()} == {
        "page#the-copy-is-fast": "17.0\u202fµs",
        "page#still-fast": "17.00",
    }
    page = text_of(html(house, "page"))
    assert "fusing helps: 3.40 (at least 2.00) measured on H200, not on MY-L4" in page
    assert "not in set my-l4: shown from set h200" in page
    assert "Set my-l4 does not have fusion (needs 40 GB). The page shows the H200 instead." in page
    assert "lab-claim-borrowed" in html(house, "page")
    assert "fusing helps at least 2.00 – ✓ 2.00" in text_of(html(house, "claims"))


def test_the_shipped_set_borrows_too_and_claims_nothing_that_it_did_not_measure(house, capsys):
    """What only another set holds is that one's: a value recorded once is gone, and the lender is named."""
    write_page(house, "page", TWO)
    whole = write_set(house / "captures", "h200", 10.0, more={"fusion": 5.0})
    write_set(house / "captures", "my-l4", 17.0, more={"fusion": 5.0})
    assert build(None, "html", update_claims=True) == 0
    assert "page#fusing-helps" in json.loads((whole / "claims.json").read_text())["claims"]
    manifest = json.loads((whole / "manifest.json").read_text())
    del manifest["experiments"]["fusion"]
    (whole / "manifest.json").write_text(json.dumps(manifest))
    assert build(None, "html", update_claims=True) == 0
    assert "page#fusing-helps" not in json.loads((whole / "claims.json").read_text())["claims"]
    assert "measured on MY-L4, not on H200" in text_of(html(house, "page"))
    assert build(None, "html", strict=True) == 0
    assert capsys.readouterr().err == ""


def test_a_thin_set_shows_what_was_recorded_when_it_was_whole(house, capsys):
    """Its traces are elsewhere: the page runs on the shipped set, the claims are those of its own record."""
    write_page(house, "page", TWO)
    write_set(house / "captures", "h200", 10.0, more={"fusion": 5.0})
    whole = write_set(house / "captures", "my-l4", 17.0, more={"fusion": 17.0}, trace=True)
    assert build("my-l4", "html", update_claims=True) == 0
    recorded = (whole / "claims.json").read_text(encoding="utf-8")
    assert "lab-lacking" not in html(house, "page")

    manifest = json.loads((whole / "manifest.json").read_text())
    manifest["experiments"]["fusion"]["thin"] = True
    (whole / "manifest.json").write_text(json.dumps(manifest))
    (whole / "fusion" / "record.sqlite.xz").unlink()
    assert build("my-l4", "html", strict=True, update_claims=True) == 0
    assert capsys.readouterr().err == ""
    assert (whole / "claims.json").read_text(encoding="utf-8") == recorded
    page = text_of(html(house, "page"))
    assert (
        "The traces of fusion are not in this thin set; labcode captures add ARCHIVE brings them, where "
        "whoever measured it gave you an archive. Claims on them have the values recorded with the whole "
        "set. The page shows the H200 instead." in page
    )
    assert (
        "✗ fusing helps: 1.00 (at least 2.00) recorded with the whole set · does not hold on this GPU" in page
    )
    assert "traces not in set my-l4: shown from set h200" in page
    assert "✓ still fast: 17.00 (at most 20.00)" in page
    assert "record.sqlite.xz (not in this thin set)" in text_of(html(house, "captures"))


def test_stale_captures_are_marked_and_fail_strict_builds(house, capsys):
    write_set(house / "captures", "h200", 10.0, fresh=False)
    assert build(None, "html", update_claims=True) == 0
    assert "stale: the code changed since this was captured" in html(house, "page")
    capsys.readouterr()
    assert build(None, "html", strict=True) == 1
    error = capsys.readouterr().err
    assert "page.md:9: WARNING: captures of measuring in set 'h200' are stale" in error


def test_a_cell_that_fails_is_shown_and_named(house, capsys, monkeypatch):
    monkeypatch.setattr("multiprocessing.cpu_count", lambda: 2)
    write_page(house, "page", PAGE.replace("book.value(", "1 / 0\nbook.value("))
    with pytest.raises(LabError, match=r"book/page\.md: a cell of this page failed"):
        build(None, "html")
    error = capsys.readouterr().err
    assert "ZeroDivisionError: division by zero" in error
    assert "1 / 0" in error
    assert "Traceback" not in html(house, "page") and "could not be built" in html(house, "page")
    assert "MY-L4" in html(house, "captures")  # the others are built
    with pytest.raises(LabError, match="a cell of this page failed"):
        build(None, "html", update_claims=True)
    assert not (house / "captures" / "h200" / "claims.json").exists()  # the page's claims would be lost
    write_page(house, "page", PAGE)
    assert build(None, "html") == 0
    assert "10.0\u202fµs" in html(house, "page")


def test_a_book_with_a_date_is_the_same_whenever_it_was_built(house, monkeypatch):
    write_page(house, "index", INDEX.replace("page\n", "page\nstatus\n"))
    write_page(house, "status", "# Status\n\n```{nb-exec-table}\n```\n")
    assert build(None, "html", update_claims=True) == 0  # and what cells gave is kept
    fill, folder = kept.fill, house / "_build" / "html"

    def built(executed: float, seconds: float) -> dict[str, bytes]:
        def filled(cache: Path, notebook: object) -> kept.Kept:
            assert fill(cache, notebook)
            return kept.Kept(executed, seconds)

        monkeypatch.setattr(kept, "fill", filled)
        assert build(None, "html", strict=True) == 0
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".buildinfo"]
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert built(1e9, 1.25) == built(1.7e9, 4.75)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert b"4.75" in built(1.7e9, 4.75)["status.html"]


def test_a_link_that_leads_nowhere_fails_the_strict_build(house, capsys):
    write_page(house, "page", PAGE + '\n<a href="nowhere.html">there</a>\n')
    assert build(None, "html", update_claims=True) == 0
    assert build(None, "html", strict=True) == 1
    assert capsys.readouterr().err == "page.html: link to nowhere.html: no such file\n"


def test_pages_say_what_to_clone_once_the_book_is_published(house):
    write_page(house, "page", PAGE + "\nFirst: {{ clone }}.\n")
    assert build(None, "html") == 0
    assert "First: clone the repository of this book." in html(house, "page")
    (house / "CITATION.cff").write_text('repository-code: "https://example.org/lab"\n', encoding="utf-8")
    assert build(None, "html") == 0
    assert "git clone https://example.org/lab profiling-lab" in re.sub(r"<[^>]+>", "", html(house, "page"))


def test_an_experiment_that_was_not_captured_is_named(house, capsys):
    write_page(house, "page", PAGE.replace("{captures-used} measuring", "{captures-used} fusion"))
    assert build(None, "html", strict=True) == 1
    assert "no experiment 'fusion' in this set (it holds: measuring)" in capsys.readouterr().err


def test_pages_follow_captures_without_a_clean_build(house):
    assert build(None, "html") == 0
    write_set(house / "captures", "h200", 11.0)
    assert build(None, "html") == 0
    assert "11.0\u202fµs" in html(house, "page")
    assert "✓ 11.0\u202fµs" in html(house, "claims")


def test_what_fails_or_warns_is_built_and_said_again(house, capsys):
    assert build(None, "html", update_claims=True) == 0
    write_page(house, "page", PAGE.replace("at_most=12", "at_most=9"))
    for _ in range(2):
        assert build(None, "html") == 0
        assert "claim does not hold" in capsys.readouterr().err
    for _ in range(2):
        assert build(None, "html", strict=True) == 1
        said = "page.md: WARNING: claim does not hold: the `copy` is fast: 10.0\u202fµs (at most 9.0\u202fµs)"
        assert said in capsys.readouterr().err
    assert build(None, "html", update_claims=True) == 0
    assert '"holds": false' in (house / "captures/h200/claims.json").read_text(encoding="utf-8")
    write_page(house, "page", PAGE)
    assert build(None, "html") == 0
    assert build(None, "html", update_claims=True) == 0
    assert '"holds": false' not in (house / "captures/h200/claims.json").read_text(encoding="utf-8")


def test_notebooks_are_executed_and_plain(house):
    write_page(
        house,
        "always",
        PAGE.replace("  name: python3\n", "  name: python3\nmystnb:\n  execution_mode: force\n"),
    )
    assert build(None, "html") == 0
    assert build(None, "notebooks") == 0  # from a book that was built before
    written = sorted((house / "_build" / "notebooks").rglob("*.ipynb"))
    assert [path.name for path in written] == ["always.ipynb", "page.ipynb"]
    for path in written:
        text = path.read_text(encoding="utf-8")
        assert "the `copy` is fast" in text
        assert "text/html" in text
        assert "It took 10.0\u202fµs, and" in text
        assert "vnd.labcode" not in text
        assert "papermill" not in text


def test_a_page_as_a_notebook_fetches_its_captures_by_hash_and_runs_elsewhere(house, tmp_path, monkeypatch):
    assert build(None, "html") == 0
    assert "Open as a notebook" not in html(house, "page")
    assert not (house / "_build/html/_notebooks").exists()
    release = tmp_path / "a release"  # as it would lie on a server
    shutil.copytree(house / "captures", release / "captures")
    monkeypatch.setenv(notebooks.FILES, release.as_uri())
    assert build(None, "html", strict=False) == 0
    assert 'href="_notebooks/page.ipynb"' in html(house, "page")
    assert "Open as a notebook" not in html(house, "index")
    made = json.loads((house / "_build/html/_notebooks/page.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    text = "".join("".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "markdown")
    assert "It took 10.0\u202fµs, and" in text
    assert all(cell.get("outputs", []) == [] for cell in made["cells"] if cell["cell_type"] == "code")
    assert (
        f"profiling_lab-{__version__}-py3-none-any.whl" in cells[0]
        and "'captures/h200/measuring/" in cells[0]
    )

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    program = "\n".join([*cells, "print(book.record('measuring', 'record')['results'])"])
    stated = cells[0].replace(f'!= "{__version__}"', "is None")  # the lab is at hand, though not as a wheel
    program = program.replace(cells[0], stated)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path)}

    def run() -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", program]
        return subprocess.run(words, cwd=elsewhere, env=env, text=True, capture_output=True, check=False)

    done = run()
    assert done.returncode == 0, done.stderr
    assert "holds: the `copy` is fast" in done.stdout and done.stdout.rstrip().endswith("{'time_us': 10.0}")
    shutil.rmtree(release)
    assert run().returncode == 0  # what was fetched is kept
    shutil.copytree(house / "captures", release / "captures")
    for folder in (release, elsewhere / f"profiling-lab-{__version__}"):
        (folder / "captures/h200/measuring/record.json").write_text("{}")
    assert "measuring/record.json: not the file that this notebook was made for" in run().stderr


def test_an_address_of_files_is_one(house, monkeypatch):
    monkeypatch.setenv(notebooks.FILES, "ftp://x")
    with pytest.raises(InputError, match="LABCODE_FILES=ftp://x: no address; give one that begins with"):
        build(None, "html")


def test_formulas_that_cannot_be_read_are_named(house):
    write_page(house, "page", PAGE.replace("$t \\le T$", "$a_1_2$"))
    with pytest.raises(LabError, match="formula 'a_1_2' cannot be read: DoubleSubscripts"):
        build(None, "html")
    write_page(house, "page", PAGE.replace("$t \\le T$", "$\\nosuch t$"))
    with pytest.raises(LabError, match=r"cannot be read: there is no \\nosuch here"):
        build(None, "html")


def test_a_missing_set_is_named(house):
    with pytest.raises(
        InputError, match=r"captures/h800: no capture set of this name \(there are: h200, my-l4\)"
    ):
        build("h800", "html")


def test_an_unknown_kind_is_named(house):
    with pytest.raises(
        LabError, match="'epub' is nothing to build; there are html, live, linkcheck, notebooks, pdf"
    ):
        build(None, "epub")


def test_outside_of_a_checkout_the_command_says_so(house, tmp_path, monkeypatch):
    monkeypatch.setenv("LABCODE_HOME", str(tmp_path))
    with pytest.raises(LabError, match=r"no conf\.py here; run this in a checkout"):
        build(None, "html")


def test_without_latex_the_command_says_what_to_install(house, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ToolError, match="a PDF needs latexmk and xelatex"):
        build(None, "pdf")


def test_without_sphinx_the_command_says_what_to_install(house, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r"Sphinx is not installed; in a checkout .* use `nox -s book`"):
        build(None, "html")


def test_on_paper_folded_code_and_downloads_are_left_out(house):
    folded = PAGE.replace("```{code-cell} python\n", "```{code-cell} python\n:tags: [hide-input]\n")
    checks = "\n```{code-cell} python\n:tags: [hide-cell]\nmore_code = time\n```\n"
    rows = "".join(f"| {n} | a step |\n" for n in range(20))
    long, short = (f"\n| row | what |\n|---|---|\n{some}\n" for some in (rows, rows[:30]))
    shown = "\n```{code-cell} python\nshown_code = time\n```\n"
    write_page(house, "page", folded + checks + shown + long + short)
    out = house / "_build"
    assert run_sphinx(house, "latex", house / "book", out / "latex", out / "doctrees", strict=False) == 0
    text = (out / "latex" / "profiling-lab.tex").read_text(encoding="utf-8")
    assert "is fast: " in text
    assert "shown\\PYGZus{}code" in text
    assert text.count(r"\begin{sphinxVerbatim}") == 1  # the cell that is not folded
    assert "measuring/record.json" not in text
    assert text.count(r"\begin{longtable}") == text.count(r"\begin{longtable}{\X{4}{10}\X{6}{10}}") == 1


def test_a_page_shows_eight_claims_and_has_switches_for_what_it_folds(house):
    cell = "\n```{code-cell} python\n:tags: [TAG]\nBODY\n```\n"
    many = 'for n in range(10):\n    book.claim(f"the copy is fast, {n}", time, at_most=12)'
    aside = 'book.claim("aside, it is slow", time, at_least=11)'
    more = cell.replace("TAG", "hide-input").replace("BODY", many)
    write_page(house, "page", PAGE + more + cell.replace("TAG", "hide-cell").replace("BODY", aside))
    assert build("my-l4", "html", update_claims=True) == 0
    assert build("h200", "html") == 0
    page = html(house, "page")
    folded = re.findall(r'<details class="lab-checks"( open)?>\n<summary>([^<]+)</summary>', page)
    assert folded == [("", "3 checks, all hold"), (" open", "1 check, 1 does not hold")]
    assert page.count('class="cell_input lab-code ') == 2
    assert "Show code" not in page and "More checks" not in page
    assert 'data-lab-switch="lab-code"' in page
    assert re.search(r'data-lab-switch="lab-other-gpu"[^>]*>MY-L4<', page)
    assert "data-lab-switch" not in html(house, "claims")
