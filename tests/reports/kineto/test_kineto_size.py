"""Large traces: read in pieces, so that what is held is the columns and not the text."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import traces

READ = """
import resource, sys
from labcode.reports.kineto.report import open_trace
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
report = open_trace(sys.argv[1])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024, sum(report.distributed()["events"]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux reports it")
def test_memory_is_less_than_the_text(tmp_path: Path) -> None:
    (path,) = traces.training(tmp_path, steps=120, layers=80)
    size = path.stat().st_size
    assert size > 80e6
    command = [sys.executable, "-c", READ, str(path)]
    result = subprocess.run(command, text=True, capture_output=True, timeout=600, check=True)
    held, events = map(int, result.stdout.split())
    assert events > 250_000
    assert held < 1.2 * size  # decoding the whole at once takes several times its size
