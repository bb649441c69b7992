from types import SimpleNamespace

from labcode.book.durations import by_experiment, by_tool


def a_set(**took):
    """A set of experiments: name, tool and seconds; each on its own day, the last with two GPUs."""
    records = {
        n: SimpleNamespace(id=n, tool=tool, wall_s=s, machine="m1", captured=n)
        for n, (tool, s) in took.items()
    }
    if records:
        list(records.values())[-1].machine = "m2"
    return SimpleNamespace(experiments=records, machines={"m1": {"gpu_count": 1}, "m2": {"gpu_count": 2}})


FIRST = a_set(loop=("nsys", 90.0), copies=("nsys", 30.4), sums=("ncu", 60.0))
SECOND = a_set(loop=("nsys", 45.0), extra=("bench", 75.0))


def test_each_tool_has_a_row_and_a_set_without_it_a_dash():
    rows = {row[0]: row[1:] for row in by_tool([FIRST, SECOND])}
    assert rows["Nsight Systems"] == ("2 in 2.0 min", "1 in 0.8 min")
    assert rows["Nsight Compute"] == ("1 in 1.0 min", "–")
    assert rows["timed without a profiler"] == ("–", "1 in 1.2 min")
    assert rows["on machines with 1 GPU"] == ("2 in 2.0 min", "1 in 0.8 min")
    assert rows["on machines with 2 GPUs"] == ("1 in 1.0 min", "1 in 1.2 min")
    assert rows["on so many days"] == ("3", "2")
    assert rows["all"] == ("3 in 3.0 min", "2 in 2.0 min")


def test_experiments_come_longest_first_by_the_first_set_that_has_them():
    assert by_experiment([FIRST, SECOND]) == [
        ("loop", "90", "45"),
        ("extra", "–", "75"),
        ("sums", "60", "–"),
        ("copies", "30", "–"),
    ]


def test_without_sets_there_is_nothing_but_the_sum():
    assert by_experiment([]) == []
    assert by_tool([])[-2] == ("all",)
