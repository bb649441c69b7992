"""What `labcode energy` prints: a power log in; the energy of its command, in words or as JSON, out."""

import json
import math
from dataclasses import dataclass

from labcode.analysis.energy.window import Curve, Energy, curve_of, idle_power
from labcode.outputs import DOCUMENT_SCHEMA
from labcode.reports.power.log import PowerLog
from labcode.show import jsonable


@dataclass(frozen=True)
class Summary:
    """One GPU's energy in the log's `PowerLog.window`, its samples, and what it is."""

    device: int
    name: str
    power_limit_w: float
    energy: Energy
    curve: Curve


def summaries(log: PowerLog) -> list[Summary]:
    """What each GPU used while the command ran."""
    begin, end = log.window()
    found = []
    for device, name, limit, samples in log.devices[
        ["device", "name", "power_limit_w", "samples"]
    ].itertuples(index=False, name=None):
        if samples:
            curve = curve_of(log.of(device))
            idle_w, idle_error_w = idle_power(log, curve)
            energy = curve.energy(begin, end, idle_w=idle_w, idle_error_w=idle_error_w)
            found.append(Summary(device, name, limit, energy, curve))
    return found


def as_json(log: PowerLog) -> str:
    """The energies as a JSON object; null where a number is not known."""
    begin, end = log.window()
    found = summaries(log)
    gpus = [
        {
            "device": one.device,
            "name": one.name,
            "power_limit_w": one.power_limit_w,
            "energy_j": one.energy.counter_j,
            "error_j": one.energy.error_j,
            "integral_j": one.energy.integral_j,
            "disagreement": one.energy.disagreement,
            "mean_w": one.energy.mean_w,
            "peak_w": one.energy.peak_w,
            "idle_w": one.energy.idle_w,
            "above_idle_j": one.energy.above_idle_j,
            "above_idle_error_j": one.energy.above_idle_error_j,
            "counter_updates": one.energy.updates,
            "counter_period_s": one.curve.update_s,
            "throttled_s": one.energy.throttled,
            "flags": list(one.energy.flags),
        }
        for one in found
    ]
    document = {
        "schema": DOCUMENT_SCHEMA,
        "command": log.command,
        "exit_code": log.exit_code,
        "seconds": (end - begin) / 1e9,
        "energy_j": sum(one.energy.counter_j for one in found) if found else None,
        "error_j": sum(one.energy.error_j for one in found) if found else None,
        "partial": log.partial,
        "problems": [_without_path(log, line) for line in log.warnings],
        "gpus": gpus,
    }
    return json.dumps(jsonable(document), indent=2, ensure_ascii=False, allow_nan=False)


def as_text(log: PowerLog) -> str:
    """The energies in lines for people."""
    begin, end = log.window()
    found = summaries(log)
    ended = "" if log.exit_code is None else f", exit code {log.exit_code}"
    lines = [f"{log.command or 'log'}: {(end - begin) / 1e9:.2f} s{ended}"]
    if len(found) > 1:
        total = sum(one.energy.counter_j for one in found)
        error = sum(one.energy.error_j for one in found)
        lines.append(f"{len(found)} GPUs together: {joules(total, error)}")
    for one in found:
        lines += _gpu(one)
    return "\n".join([*lines, *(f"note: {_without_path(log, line)}" for line in log.warnings)])


def joules(value: float, error: float) -> str:
    """An energy with its error: ``1,234 J ± 25 J (2.0 %)``."""
    if math.isnan(value):
        return "not given"
    share = f" ({error / value:.1%})" if value > error else ""
    return f"{value:,.1f} J ± {error:,.1f} J{share}"


def _gpu(one: Summary) -> list[str]:
    energy = one.energy
    limit = f", power limit {one.power_limit_w:.0f} W" if math.isfinite(one.power_limit_w) else ""
    period = one.curve.update_s
    every = f", one every {period * 1000:.0f} ms" if math.isfinite(period) else ""
    rows = [("energy", joules(energy.counter_j, energy.error_j), f"counter, {energy.updates} updates{every}")]
    if math.isfinite(energy.integral_j):
        apart = f"{energy.disagreement:+.1%} of the counter" if math.isfinite(energy.disagreement) else ""
        rows.append(("by power", f"{energy.integral_j:,.1f} J", apart))
    if math.isfinite(energy.idle_w):
        rows.append(
            (
                "above idle",
                joules(energy.above_idle_j, energy.above_idle_error_j),
                f"idle {energy.idle_w:.1f} W ± {energy.idle_error_w:.1f} W before it",
            )
        )
    rows.append(("power", f"mean {_watts(energy.mean_w)}, peak {_watts(energy.peak_w)}", ""))
    slow = ", ".join(f"{seconds:.1f} s {name}" for name, seconds in energy.throttled.items())
    rows.append(("throttled", slow or "no", ""))
    lines = [f"GPU {one.device}: {one.name}{limit}"]
    lines += [f"  {name:<11} {value:<34} {note}".rstrip() for name, value, note in rows]
    return [*lines, *(f"  note: {flag}" for flag in energy.flags)]


def _watts(value: float) -> str:
    return f"{value:.1f} W" if math.isfinite(value) else "not known"


def _without_path(log: PowerLog, line: str) -> str:
    return line.removeprefix(f"{log.path}: ")
