"""What processes are called: by rank, by what PyTorch names their main thread, by GPUs, else by number."""

from typing import Any

import pandas as pd

from labcode.figures.timeline.rows import Choice, process_names, report_groups
from labcode.figures.timeline.tracks import Track, group_names
from tests.figures.tables import Tables

WINDOW = (0, 1000)


def threads(*rows: tuple[Any, ...], columns: tuple[str, ...] = ("pid", "tid", "name")) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(columns))


def fed_loop() -> Tables:
    """A loop with GPU work, two data workers, and a process that does nothing in the window."""
    t = Tables()
    t.named += [(100, 100, "python3"), (100, 101, "pt_data_pin")]
    t.add("kernels", 100, 200, pid=100)
    t.add("api", 0, 50, pid=100, name="cudaLaunchKernel")
    for pid in (130, 120):
        t.named.append((pid, pid, "pt_data_worker"))
        t.add("nvtx", 10, 900, pid=pid, name="decode")
    t.add("nvtx", 2000, 2100, pid=110, name="later")
    return t


def test_a_data_worker_is_told_from_the_process_with_gpu_work() -> None:
    named = threads((100, 100, "python3"), (100, 101, "pt_data_worker"), (120, 120, "pt_data_worker"))
    assert process_names({100: [0], 120: []}, named) == {
        100: "python3 on GPU 0 (process 100)",
        120: "data worker (process 120)",
    }


def test_gpus_are_named_only_where_they_tell_processes_apart() -> None:
    named = threads((1, 1, "python3"), (2, 2, "python3"))
    assert list(process_names({1: [0], 2: [1]}, named).values()) == [
        "python3 (process 1)",
        "python3 (process 2)",
    ]
    assert list(process_names({1: [1, 0], 2: []}, named).values()) == [
        "python3 on GPU 0, 1 (process 1)",
        "python3 without GPU work (process 2)",
    ]


def test_a_process_without_names_keeps_its_number() -> None:
    assert process_names({7: []}, threads()) == {7: "process 7"}
    assert list(process_names({7: [0], 8: []}, threads()).values()) == [
        "process 7, on GPU 0",
        "process 8, without GPU work",
    ]


def test_ranks_go_before_all_else() -> None:
    columns = ("pid", "tid", "name", "rank")
    two = threads((1, 1, "python", 0), (2, 2, "python", 1), columns=columns)
    assert process_names({1: [0], 2: []}, two) == {1: "rank 0", 2: "rank 1"}
    one = threads((1, 1, "python", 0), columns=columns)
    assert process_names({1: [0]}, one) == {1: "python (process 1)"}


def test_headings_of_tracks_name_a_gpus_process_only_where_several_have_gpus() -> None:
    named = threads((1, 1, "python3"), (2, 2, "pt_data_worker"))
    fed = [Track(1, -1, -1, 0, 0), Track(1, 0, 1, 7, 0), Track(2, -1, -1, 0, 0)]
    assert list(group_names(fed, named).values()) == [
        "python3 on GPU 0 (process 1)",
        "GPU 0",
        "data worker (process 2)",
    ]
    both = [*fed, Track(2, 1, 1, 7, 0)]
    assert group_names(both, named)[2, 1] == "GPU 1, process 2"
    ranks = threads((1, 1, "a", 0), (2, 2, "b", 1), columns=("pid", "tid", "name", "rank"))
    assert group_names(both, ranks)[2, 1] == "GPU 1, rank 1"


def test_processes_without_gpu_work_are_shown_when_asked() -> None:
    assert [group.title for group in report_groups(fed_loop(), WINDOW)] == ["", ""]
    shown = report_groups(fed_loop(), WINDOW, Choice(cpu_only=True))
    assert [group.title for group in shown] == [
        "python3 on GPU 0 (process 100)",
        "",
        "data worker (process 120)",
        "data worker (process 130)",
    ]
    assert [row.label for row in shown[2].rows] == ["NVTX"]
    chosen = report_groups(fed_loop(), WINDOW, Choice(cpu_only=True, pids=[100, 130]))
    assert [group.title for group in chosen][2:] == ["data worker (process 130)"]
