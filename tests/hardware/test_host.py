"""What tells hosts apart, read from a made-up /proc and /sys."""

import os
from itertools import accumulate
from pathlib import Path

import pytest

from labcode.hardware import host


def make_root(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def cpuinfo(sockets: int, cores: int, threads: int, flags: str = "fpu") -> str:
    blocks = [
        f"processor\t: {number}\nmodel name\t: INTEL(R) XEON(R)  PLATINUM 8558\nphysical id\t: {socket}\n"
        f"core id\t\t: {core}\nflags\t\t: {flags}\n"
        for number, (socket, core, _) in enumerate(
            (s, c, t) for s in range(sockets) for c in range(cores) for t in range(threads)
        )
    ]
    return "\n".join(blocks)


def test_a_host_with_two_sockets_and_two_threads_a_core(tmp_path: Path) -> None:
    root = make_root(
        tmp_path,
        {
            "proc/cpuinfo": cpuinfo(2, 3, 2),
            "proc/meminfo": "MemTotal:       131072000 kB\nMemFree: 1 kB\n",
            "sys/devices/system/node/node0/x": "",
            "sys/devices/system/node/node1/x": "",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
            "sys/fs/cgroup/cpu.max": "650000 100000\n",
            "sys/bus/pci/devices/0000:8a:00.0/numa_node": "1\n",
            "sys/bus/pci/devices/0000:8b:00.0/numa_node": "-1\n",
        },
    )
    found = host.describe(root)
    assert found.pop("kernel")
    assert found == {
        "cpu": "INTEL(R) XEON(R) PLATINUM 8558",
        "cpu_sockets": 2,
        "cpu_cores": 6,
        "cpu_threads": 12,
        "cpu_quota": 6.5,
        "cpu_governor": "performance",
        "numa_nodes": 2,
        "host_memory_gib": 125,
        "virtualization": None,
    }
    assert host.numa_node("00000000:8A:00.0", root) == 1
    assert host.numa_node("00000000:8B:00.0", root) is None


def test_a_virtual_machine_is_called_by_its_maker_and_nothing_else_of_it_is_told(tmp_path: Path) -> None:
    files = {
        "proc/cpuinfo": cpuinfo(1, 2, 1, "fpu hypervisor"),
        "sys/class/dmi/id/sys_vendor": "QEMU\n",
        "sys/class/dmi/id/product_name": "secret-host-17\n",
        "sys/class/dmi/id/product_serial": "SERIAL-99\n",
    }
    found = host.describe(make_root(tmp_path / "a", files))
    assert found["virtualization"] == "QEMU" and found["cpu_quota"] is None
    assert not any(isinstance(v, str) and ("secret" in v or "SERIAL" in v) for v in found.values())
    files["sys/class/dmi/id/sys_vendor"] = "Somebody\n"
    assert host.describe(make_root(tmp_path / "b", files))["virtualization"] == "virtual"


def test_where_nothing_is_visible_nothing_is_said(tmp_path: Path) -> None:
    found = host.describe(tmp_path)
    assert {key for key, value in found.items() if value is not None} == {"kernel"}


def test_the_pace_of_a_host_is_that_of_most_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    def pace(*odd: float) -> float:
        took = [*odd, *[0.005] * (host._PIECES - len(odd))]
        clock = accumulate(seconds for piece in took for seconds in (1.0, piece))
        monkeypatch.setattr(host.time, "perf_counter", lambda: next(clock))
        return host.pace_s()

    assert pace(0.05, 0.001) == pytest.approx(0.005)  # one that was interrupted, one that was lucky
    assert pace(*[0.007] * 11) == pytest.approx(0.007)


def test_what_other_virtual_machines_took(tmp_path: Path) -> None:
    stat = "cpu  3011133 1242881 334458 609935 5015 7 2941 6887 3 0\ncpu0 1519602 611750 1 1 1 0 1 3453 0 0\n"
    assert host.stolen_s(make_root(tmp_path / "a", {"proc/stat": stat})) == 6887 / os.sysconf("SC_CLK_TCK")
    assert host.stolen_s(make_root(tmp_path / "b", {"proc/stat": "cpu  1 2 3\n"})) == 0.0
    assert host.stolen_s(tmp_path / "none") == 0.0
