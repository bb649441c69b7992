"""The ``labcode`` command: arguments in, one function of the lab called, an exit code out.

Exit codes: 0 done, 1 the answer is no (a failed exercise, a stale capture), 2 bad use or bad input, 128 and
the signal's number when a signal ended it (141: whoever read what it printed had enough). A command is
imported when it is named, and what it needs when it runs, so that ``labcode --help`` starts without pandas,
matplotlib or torch.
"""

from labcode.cli.main import main, program

__all__ = ["main", "program"]
