"""`labcode doctor` for people: the report of `labcode.doctor.probe` in, text on a console out."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from labcode.show import terminal
from labcode.show.terminal import escape

_MARKS = {True: "[green]yes[/green]", False: "[red]no[/red]", None: "[yellow]unknown[/yellow]"}


def render(report: Mapping[str, Any], console: Console) -> None:
    """Print a report: machine, GPUs, tools, what is permitted, what can run, how to enable the rest."""
    _machine(report, console)
    _gpus(report["gpus"], console)
    _tools(report, console)
    _permissions(report["permissions"], console)
    _can_run(report["can_run"], console)
    _advice(report, console)


def _machine(report: Mapping[str, Any], console: Console) -> None:
    system, driver = report["system"], report["driver"]
    console.print("[bold]Machine[/bold]")
    table = terminal.pairs()
    table.add_row(
        "system",
        f"{system['os']}, kernel {system['kernel']}, {system['architecture']}, {system['cpu_count']} CPUs",
    )
    table.add_row("Python", system["python"])
    table.add_row("NVIDIA driver", driver["version"] or "none")
    table.add_row("CUDA it serves", driver["cuda"] or "none")
    for note in driver["notes"]:
        table.add_row("note", note)
    console.print(table)


def _gpus(gpus: Iterable[Mapping[str, Any]], console: Console) -> None:
    console.print("\n[bold]GPUs[/bold]")
    facts = ("SMs", "memory", "L2", "clocks now / max", "power limit", "ECC", "MIG", "NVLinks", "joules")
    table = terminal.table("", "GPU", *facts)
    for gpu in gpus:
        hidden = "" if gpu["visible_to_cuda"] else " (hidden from CUDA)"
        capability = (
            f" (compute capability {gpu['compute_capability']})" if gpu.get("compute_capability") else ""
        )
        clock = f"{_number(gpu.get('sm_clock_mhz'))} / {_number(gpu.get('max_sm_clock_mhz'), 'MHz')}"
        peers = gpu.get("nvlink_peers")
        links = _number(gpu.get("nvlinks")) + (f" to GPU {', '.join(map(str, peers))}" if peers else "")
        table.add_row(
            str(gpu["index"]),
            f"{gpu['name']}{capability}{hidden}",
            _number(gpu.get("sm_count")),
            _number(gpu.get("memory_bytes"), "GiB", 1 << 30),
            _number(gpu.get("l2_bytes"), "MiB", 1 << 20),
            clock,
            _number(gpu.get("power_limit_w"), "W"),
            _switch(gpu.get("ecc")),
            _switch(gpu.get("mig")),
            links,
            _MARKS[gpu.get("energy_counter")],
        )
    console.print(table if table.row_count else "  none that this machine shows")


def _tools(report: Mapping[str, Any], console: Console) -> None:
    console.print("\n[bold]Tools[/bold]")
    table = terminal.pairs()
    for name, tool in report["tools"].items():
        place = tool["path"] or "not found"
        inside = ", the one inside Nsight Compute" if tool.get("inside_nsight_compute") else ""
        warning = " [yellow](see below)[/yellow]" if tool["problem"] and tool["path"] else ""
        table.add_row(name, f"{tool['version'] or ''} {escape(place)}{inside}{warning}".strip())
    for name, version in report["packages"].items():
        table.add_row(name, f"{version} (Python package)")
    for name in ("torch", "nvidia-ml-py", "cupy"):
        if not any(package.partition("-cuda")[0] == name for package in report["packages"]):
            table.add_row(name, "not installed")
    console.print(table)


def _permissions(permissions: Mapping[str, Any], console: Console) -> None:
    console.print("\n[bold]Permitted[/bold]")
    table = terminal.pairs()
    for name, title in (("counters", "GPU counters (ncu)"), ("cpu_sampling", "CPU sampling (nsys)")):
        entry = permissions[name]
        advice = f"; {escape(entry['advice'])}" if entry["advice"] else ""
        table.add_row(title, f"{_MARKS[entry['allowed']]}: {escape(entry['reason'])}{advice}")
    console.print(table)


def _can_run(can_run: Mapping[str, Any], console: Console) -> None:
    console.print("\n[bold]The book here[/bold]")
    _indented("Every page can be read, built and run on the captures that ship with it.", console, 2)
    for kind in ("chapters", "experiments", "exercises"):
        listed = can_run[kind]
        able = [name for name, needs in listed.items() if not needs]
        title = "pages that can be measured again" if kind == "chapters" else f"{kind} that can run"
        names = f": {', '.join(able)}" if able else ""
        _indented(f"[bold]{title}[/bold]: {len(able)} of {len(listed)}{names}", console, 2)
        by_needs: dict[str, list[str]] = {}
        for name, needs in listed.items():
            if needs:
                by_needs.setdefault(", ".join(needs), []).append(name)
        for needs_text, lacking in by_needs.items():
            _indented(f"[yellow]lacking {escape(needs_text)}[/yellow]: {', '.join(lacking)}", console, 4)


def _advice(report: Mapping[str, Any], console: Console) -> None:
    """What is missing and what is wrong, each thing once."""
    unmet = report["can_run"]["missing"]
    missing = [
        reason for need, reason in unmet.items() if need == "gpu" or "gpu" not in need or "gpu" not in unmet
    ]
    told = [text for text in report["problems"] if not any(text in reason for reason in missing)]
    if {"gpu", "pynvml"} <= unmet.keys():  # then what NVML has to say is nothing new
        told = [text for text in told if "nvidia-ml-py" not in text]
    if missing or told:
        console.print("\n[bold]To enable the rest[/bold]")
    for text in dict.fromkeys([*missing, *told]):
        _indented(f"• {escape(text)}", console, 2)


def _indented(text: str, console: Console, columns: int) -> None:
    console.print(Padding(Text.from_markup(text), (0, 0, 0, columns)))


def _number(value: float | None, unit: str = "", divisor: int = 1) -> str:
    return "?" if value is None else f"{value / divisor:.0f} {unit}".strip()


def _switch(value: bool | None) -> str:
    return {True: "on", False: "off", None: "?"}[value]
