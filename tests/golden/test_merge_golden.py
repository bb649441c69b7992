"""Golden files brought up to date export by export."""

from pathlib import Path

import pytest

from labcode.errors import LabError
from tests.golden.golden import Golden, load_golden
from tests.golden.merge_golden import main, merge, write


def of(nsys: str = "2025.3.1", **runs: str) -> Golden:
    """An experiment ``a`` with runs whose one report says something."""
    versions: dict[str, object] = {"nsys": nsys}
    return Golden(
        {f"a/{run}.osrt_sum.csv": text for run, text in runs.items()},
        versions | {f"a/{run}": {"sha256": text} for run, text in runs.items()},
    )


def test_the_newer_ones_win_and_the_rest_stays(tmp_path: Path) -> None:
    old, new = of(one="1", two="2", gone="3"), of(two="new", three="4")
    old.files["a/two.nvtx_sum.csv"] = "only the old one had rows of this report"
    for name, golden in (("old", old), ("new", new)):
        write(golden, tmp_path / f"{name}.tar.xz")
    assert main([str(tmp_path / "old.tar.xz"), str(tmp_path / "new.tar.xz"), "--drop", "a/gone"]) == 0
    assert load_golden("old", tmp_path) == of(one="1", two="new", three="4")
    first = (tmp_path / "old.tar.xz").read_bytes()
    main([str(tmp_path / "old.tar.xz"), str(tmp_path / "new.tar.xz")])
    assert (tmp_path / "old.tar.xz").read_bytes() == first


def test_two_versions_of_nsys_do_not_mix() -> None:
    with pytest.raises(LabError, match=r"nsys 2025.3.1 and 2024.2; ask one nsys about all"):
        merge(of(one="1"), of("2024.2", two="2"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"a.tar.xz: no golden files"):
        main([str(tmp_path / "a.tar.xz"), str(tmp_path / "b.tar.xz")])
