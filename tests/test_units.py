"""Times and sizes as users type them."""

import pytest

from labcode.errors import LabError
from labcode.units import parse_size, parse_time


def test_times_have_units() -> None:
    given = {
        "30m": 1800,
        "90s": 90,
        "1h30m": 5400,
        "2h": 7200,
        "5min": 300,
        "100ms": 0.1,
        ".5 s": 0.5,
        "0s": 0,
    }
    assert {text: parse_time(text, "--idle") for text in given} == given
    for text in ("30", "m", "", "-5m", "half an hour", "1.s", "5ms3s"):
        with pytest.raises(LabError, match=r"--budget .*: give a time with its unit, such as 100ms, 90s"):
            parse_time(text, "--budget")
    with pytest.raises(LabError, match="--budget 0s: give a time"):
        parse_time("0s", "--budget", least_s=1.0)


def test_sizes_have_units() -> None:
    assert [parse_size(text, "--part-size") for text in ("15MiB", "20 MB", "1GB")] == [
        15 << 20,
        20_000_000,
        10**9,
    ]
    for text in ("15", "0MB", "1kB", "1.5GB"):
        with pytest.raises(LabError, match=r"--part-size .*: not a size; say for instance 15MiB or 20MB"):
            parse_size(text, "--part-size")
