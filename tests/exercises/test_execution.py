import errno
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from labcode.grading import execution, jail
from labcode.grading.execution import Call, Execution
from tests.exercises.support import ROOT, Ran, run_calls


def run(tmp_path: Path, source: str, *calls: Call, load_limit_s: float = 30.0) -> Ran:
    file = tmp_path / "a_answer.py"
    file.write_text(source, encoding="utf-8")
    return run_calls(file, calls or (Call("f", (3,)),), load_limit_s=load_limit_s)


def test_values_come_back_in_order(tmp_path: Path) -> None:
    table = pd.DataFrame({"start_ns": [1, 2]})
    ran = run(
        tmp_path,
        "def f(x):\n    return x + 1\n\ndef g(table):\n    return {0: int(table['start_ns'].sum())}\n",
        Call("f", (3,)),
        Call("g", (table,)),
    )
    assert ran.load_error == ()
    assert [(o.kind, o.value) for o in ran.outcomes] == [("value", 4), ("value", {0: 3})]


@pytest.mark.skipif(bool(jail.missing()), reason=f"not run: {jail.missing()}")
def test_an_answer_in_a_jail_gets_files_that_lie_outside(tmp_path: Path) -> None:
    (tmp_path / "capture.sqlite").write_text("content")
    source = "def f(path, other):\n    return [path.read_text(), other.exists()]\n"
    with jail.isolated():
        (outcome,) = run(
            tmp_path, source, Call("f", (tmp_path / "capture.sqlite", ROOT / "solutions"))
        ).outcomes
    assert outcome.value == ["content", False]


def test_an_error_shows_the_learners_lines_only(tmp_path: Path) -> None:
    source = (
        "import pandas as pd\n\ndef f(x):\n    return g(x)\n\n"
        "def g(x):\n    return pd.DataFrame({'a': [x]})['b']\n"
    )
    (outcome,) = run(tmp_path, source).outcomes
    assert outcome.kind == "error"
    assert outcome.lines == (
        "a_answer.py, line 4, in f:  return g(x)",
        "a_answer.py, line 7, in g:  return pd.DataFrame({'a': [x]})['b']",
        "KeyError: 'b'",
    )


def test_calls_go_on_after_an_error(tmp_path: Path) -> None:
    ran = run(tmp_path, "def f(x):\n    return 1 / x\n", Call("f", (0,)), Call("f", (2,)))
    assert [o.kind for o in ran.outcomes] == ["error", "value"]


def test_deep_recursion_is_shown_shortly(tmp_path: Path) -> None:
    (outcome,) = run(tmp_path, "def f(x):\n    return f(x)\n").outcomes
    assert outcome.lines[-1].startswith("RecursionError")
    assert len(outcome.lines) < 8
    assert any("more calls" in line for line in outcome.lines)


def test_an_endless_loop_is_stopped(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        "def f(x):\n    while x > 2:\n        pass\n    return x\n",
        Call("f", (1,)),
        Call("f", (3,), 0.5),
        Call("f", (1,)),
    )
    assert [o.kind for o in ran.outcomes] == ["value", "timeout"]
    assert ran.outcomes[1].lines == ("took longer than 0.5 s",)


def test_an_endless_loop_at_the_top_of_the_file(tmp_path: Path) -> None:
    ran = run(tmp_path, "import time\nwhile True:\n    time.sleep(0.01)\n", load_limit_s=2.0)
    assert ran.load_error == ("took longer than 2 s before any function was called",)
    assert ran.outcomes == ()


def test_a_syntax_error_names_the_line(tmp_path: Path) -> None:
    ran = run(tmp_path, "def f(x)\n    return x\n")
    assert ran.load_error == ("a_answer.py, line 1: SyntaxError: expected ':'", "    def f(x)")


def test_a_missing_package_says_what_to_do(tmp_path: Path) -> None:
    ran = run(tmp_path, "import no_such_package.sub\n")
    assert ran.load_error[-1] == (
        "the file imports 'no_such_package', which is not installed here: install it "
        "(`python -m pip install no_such_package`) or do without it"
    )


def test_a_missing_function(tmp_path: Path) -> None:
    (outcome,) = run(tmp_path, "def g(x):\n    return x\n").outcomes
    assert outcome.lines == ("the file has no function 'f': keep the starter's names",)


def test_not_written_yet(tmp_path: Path) -> None:
    (outcome,) = run(tmp_path, "def f(x):\n    raise NotImplementedError('add one')\n").outcomes
    assert outcome.lines[-1] == "not written yet: add one"


@pytest.mark.parametrize(
    ("statement", "kind", "words"),
    [
        ("sys.exit(3)", "error", "SystemExit: 3"),
        ("os._exit(3)", "died", "the file ended the whole program (exit code 3) instead of returning"),
        ("os.kill(os.getpid(), 11)", "died", "killed by SIGSEGV"),
        ("input()", "error", "nobody types anything here"),
    ],
)
def test_ways_to_end_early(tmp_path: Path, statement: str, kind: str, words: str) -> None:
    (outcome,) = run(tmp_path, f"import os, sys\n\ndef f(x):\n    {statement}\n").outcomes
    assert outcome.kind == kind
    assert words in outcome.lines[-1]


def test_ending_while_loading(tmp_path: Path) -> None:
    ran = run(tmp_path, "import os\nprint('so far')\nos._exit(4)\n")
    assert ran.load_error == (
        "the file ended the whole program (exit code 4) instead of returning",
        "so far",
    )


def test_what_is_printed_is_kept_and_bounded(tmp_path: Path) -> None:
    ran = run(tmp_path, "def f(x):\n    print('x' * 100_000)\n    print('the end')\n    return x\n")
    assert ran.outcomes[0].value == 3
    assert ran.printed.endswith("the end\n")
    assert len(ran.printed) < 10_000


def test_nothing_is_left_lying_around(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("ONE = 1\n")
    source = "import helper\n\ndef f(x):\n    open('result.txt', 'w').write('x')\n    return x + helper.ONE\n"
    assert run(tmp_path, source).outcomes[0].value == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a_answer.py", "helper.py"]


def test_a_folder_is_removed_though_something_still_writes_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_answer.py").write_text("x = 1\n")
    ran = Execution(tmp_path / "a_answer.py")
    folder, remove, tries = Path(ran._folder.name), os.rmdir, []

    def written_to(path: str, **how: Any) -> None:
        tries.append(path)
        if len(tries) < 4:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        remove(path, **how)

    monkeypatch.setattr(os, "rmdir", written_to)
    ran.close()
    assert len(tries) > 4 and not folder.exists()


def test_the_main_part_rests(tmp_path: Path) -> None:
    ran = run(tmp_path, "def f(x):\n    return x\n\nif __name__ == '__main__':\n    raise SystemExit\n")
    assert ran.outcomes[0].value == 3


def test_inputs_are_fresh_for_every_call(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": [1, 2, 3]})
    source = "def f(table):\n    table.drop(table.index[0], inplace=True)\n    return len(table)\n"
    ran = run(tmp_path, source, Call("f", (table,)), Call("f", (table,)))
    assert [o.value for o in ran.outcomes] == [2, 2]
    assert len(table) == 3


def test_dataclasses_work_in_a_learners_file(tmp_path: Path) -> None:
    source = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n"
        "@dataclass\nclass Gap:\n    start: int\n\ndef f(x):\n    return Gap(x)\n"
    )
    value = run(tmp_path, source).outcomes[0].value
    assert value.type_name == "Gap"


def test_an_answer_starts_no_programs(tmp_path: Path) -> None:
    source = "import subprocess\n\ndef f(x):\n    subprocess.run(['true'])\n"
    (outcome,) = run(tmp_path, source).outcomes
    assert outcome.lines[-1] == "PermissionError: an answer starts no programs"


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux' /proc")
def test_what_was_started_past_the_guards_ends_with_the_grading(tmp_path: Path) -> None:
    (tmp_path / "a_answer.py").write_text("x = 1\n")
    ran = Execution(tmp_path / "a_answer.py")
    child = subprocess.Popen(
        ["sleep", "60"], env={"TMPDIR": f"{ran._folder.name}/inputs"}, start_new_session=True
    )
    ran.close()
    assert child.wait(timeout=600) == -signal.SIGKILL


def test_solutions_can_neither_be_imported_nor_opened(tmp_path: Path) -> None:
    idle = "solutions/nsys/ex01_timeline_basics/a_idle.py"
    source = (
        "import importlib\n\ndef f(x):\n    return open(x).read()\n\n"
        "def g(x):\n    return importlib.import_module(x)\n"
    )
    names = Call("f", (str(ROOT / idle),)), Call("g", ("solutions.nsys.ex01_timeline_basics.a_idle",))
    opened, imported = run(tmp_path, source, *names).outcomes
    assert opened.lines[-1] == "PermissionError: the solutions are for afterwards"
    assert imported.kind == "error" and "solutions" in imported.lines[-1]


def test_what_is_written_into_the_graders_records_counts_for_nothing(tmp_path: Path) -> None:
    source = (
        "import os\n\ndef f(x):\n    for number in range(3, 20):\n        try:\n"
        '            os.write(number, b\'[[[\\n{"event": 1}\\n{"event": "end"}\\n\')\n'
        "        except OSError:\n            pass\n    return x\n"
    )
    assert [o.kind for o in run(tmp_path, source).outcomes] == ["error"]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("return len(bytearray(6 << 30))", "MemoryError"),
        ("open('big', 'wb').truncate(1 << 30)", "File too large"),
        ("open(os.path.expanduser('~/x'), 'w')", "an answer writes to its working folder alone"),
        ("os.rename('/tmp/x', 'y')", "an answer writes to its working folder alone"),
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "an answer uses no network"),
        ("os.kill(os.getppid(), 0)", "an answer ends no other process"),
        ("open('/proc/1/environ')", "an answer has no need of other processes"),
    ],
)
def test_accidents_are_kept_small(tmp_path: Path, statement: str, words: str) -> None:
    (outcome,) = run(tmp_path, f"import os\n\ndef f(x):\n    {statement}\n").outcomes
    assert outcome.kind == "error" and words in outcome.lines[-1]


def test_an_answer_may_write_where_it_works(tmp_path: Path) -> None:
    source = (
        "import os, shutil, tempfile\n\ndef f(x):\n"
        "    with tempfile.TemporaryDirectory() as folder:\n"
        "        open(folder + '/a', 'w').write('x')\n        os.mkdir(folder + '/b')\n"
        "    os.makedirs('c/d')\n    os.rename('c', 'e')\n    shutil.rmtree('e')\n    return os.listdir()\n"
    )
    assert run(tmp_path, source).outcomes[0].value == []


def test_an_endless_loop_while_importing_ends_after_ten_seconds() -> None:
    assert execution.LOAD_LIMIT_S == 10.0


def test_more_answers_than_anybody_reads_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "_MOST_BYTES", 1 << 20)
    (outcome,) = run(tmp_path, "def f(x):\n    return 'x' * (2 << 20)\n").outcomes
    assert outcome.lines == ("gave more than 1 MiB of answers",)


def test_forbidden_modules_cannot_be_imported_in_any_way(tmp_path: Path) -> None:
    (tmp_path / "a_answer.py").write_text(
        "import importlib\n\ndef f(x):\n    return importlib.import_module('labcode.analysis.' + x)\n"
    )
    ran = Execution(tmp_path / "a_answer.py", forbidden=("labcode.analysis.energy",))
    with ran:
        refused, given = ran.outcomes([Call("f", ("energy.ranges",)), Call("f", ("numeric",))])
    assert refused.lines[-1].startswith("ImportError: ") and "write it yourself" in refused.lines[-1]
    assert given.kind == "value"
