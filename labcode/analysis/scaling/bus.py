"""Bus bandwidth: a collective, its size and time in; GB/s as nccl-tests defines them out.

That is (its ``doc/PERFORMANCE.md``) the bytes of the collective by its time, times what each GPU must send
for one byte of it whatever the algorithm, as long as the switch does not add up. It can be compared with the
speed of a link.
"""

from labcode.errors import InputError

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")


def bus_factor(operation: str, count: int) -> float:
    """Bytes that each GPU must send for a byte of the collective; `InputError` for an unknown one."""
    if operation not in OPERATIONS:
        raise InputError(f"{operation}: no such collective (there are: {', '.join(OPERATIONS)})")
    if count < 2:
        raise InputError(f"a collective needs two GPUs, not {count}")
    return (2 if operation == "all_reduce" else 1) * (count - 1) / count


def bus_bandwidth_gbps(operation: str, count: int, size: float, seconds: float) -> float:
    """GB/s of bus bandwidth of a collective of ``size`` bytes; `InputError` for a time of 0 and less."""
    if not seconds > 0:
        raise InputError(f"{operation} of {size:g} bytes took {seconds:g} s; measure it again")
    return bus_factor(operation, count) * size / seconds / 1e9
