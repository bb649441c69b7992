from labcode.book.doctor import doctor_table
from labcode.doctor import probe


def state(table, what):
    return table.set_index("what").loc[what, "state"]


def test_the_report_of_this_machine_becomes_a_table():
    table = doctor_table(probe.probe())
    assert list(table.columns) == ["what", "found", "state"]
    assert {"system", "NVIDIA driver", "Nsight Systems", "CUDA compiler", "experiments"} <= set(table["what"])
    assert table.map(lambda cell: isinstance(cell, str) and cell != "").all(axis=None)


def test_what_is_missing_says_what_to_do():
    report = {
        "driver": {"version": None, "cuda": None},
        "tools": {"nsys": {"version": None, "path": None, "problem": "nsys: not found; install it"}},
        "permissions": {
            "counters": {"allowed": False, "reason": "reserved for root", "advice": "ask for it"}
        },
        "gpus": [{"index": 0, "name": "NVIDIA L4", "visible_to_cuda": False}],
        "can_run": {"experiments": {"one": [], "two": ["needs a GPU"]}},
    }
    table = doctor_table(report)
    assert state(table, "NVIDIA driver") == "no driver: pages can be read, not measured again"
    assert state(table, "Nsight Systems") == "nsys: not found; install it"
    assert state(table, "GPU hardware counters") == "ask for it"
    assert state(table, "GPU 0") == "hidden from CUDA"
    assert state(table, "experiments") == "needs a GPU"


def test_what_is_there_is_ok():
    tool = {"version": "2025.3.1", "path": "nsys", "problem": None, "inside_nsight_compute": True}
    table = doctor_table({"tools": {"nsys": tool}})
    assert table.values.tolist() == [["Nsight Systems", "2025.3.1, the one inside Nsight Compute", "ok"]]
    assert doctor_table({}).empty
