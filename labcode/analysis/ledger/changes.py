"""A program to replay and what to change in it in; the program with the change out.

Each function takes a cause out, whole (``keep`` 0) or in part: ``keep`` is the share of it that stays.
"""

import numpy as np

from labcode.analysis.ledger.ledger import PACE
from labcode.analysis.ledger.replay import OF_ITSELF_NS, Program
from labcode.reports.columns import Bools, Floats, Ints


def without_code(program: Program, stretches: Bools, keep: float = 0.0) -> Program:
    """Without the code of the CPU before some calls."""
    gap, due = np.where(stretches, program.gap * keep, program.gap), np.where(stretches, -1.0, program.due)
    return program.change(gap=gap, due=due)


def without_calls(program: Program, calls: Bools, keep: float = 0.0) -> Program:
    """Some calls take no time, and nothing is waited for in them."""
    waits = program.waits if keep else np.where(calls, 0, program.waits)
    return program.change(spent=np.where(calls, program.spent * keep, program.spent), waits=waits)


def without_waits(program: Program, calls: Bools) -> Program:
    """Some calls wait for nothing."""
    return program.change(waits=np.where(calls, 0, program.waits))


def cheaper_launches(program: Program, calls: Bools, factor: float, latency_ns: float) -> Program:
    """Some calls and the code before them take a fraction; what was launched begins so much later."""
    gap, spent = (np.where(calls, column * factor, column) for column in (program.gap, program.spent))
    late = np.minimum(program.latency, latency_ns)
    return program.change(
        gap=gap, spent=spent, latency=np.where(calls[call_of(program)], late, program.latency)
    )


def own_stream(program: Program, ops: Bools) -> Program:
    """Some operations run beside all others, in a line of their own; in this round nobody waits for them."""
    stream = np.where(ops, int(program.stream.max(initial=0)) + 1, program.stream)
    after = np.where(ops | np.append(ops, False)[program.after], -1, program.after)
    moved = program.change(stream=stream, after=after, latency=np.where(ops, 0.0, program.latency))
    return not_blocking(moved, ops)


def not_blocking(program: Program, ops: Bools) -> Program:
    """Nobody waits in the calls of some copies, nor elsewhere for them alone."""
    waited = (program.waits == 2) & np.append(ops, False)[program.target]
    mine = np.zeros(len(program.row), np.bool_)
    mine[call_of(program)[ops]] = True
    spent = np.where(mine | waited, np.minimum(program.spent, 5_000.0), program.spent)
    made = np.where(ops, np.minimum(program.made, 5_000.0), program.made)
    return program.change(waits=np.where(waited, 0, program.waits), spent=spent, made=made)


def with_lengths(program: Program, length: Floats) -> Program:
    """Operations take other times."""
    return program.change(length=np.asarray(length, np.float64))


def without_ops(program: Program, ops: Bools) -> Program:
    """Some operations are not launched: neither they nor their calls take time, nor the code before these.

    Nor what is asked between that code and the call (whether a stream is being captured). Code that takes far
    longer than what usually lies before a launch does something else and stays.
    """
    every = np.bincount(call_of(program), minlength=len(program.row))
    some = np.bincount(call_of(program)[ops], minlength=len(program.row))
    launch = launch_of(program)
    calls = np.append(some == every, False)[launch]
    code = np.zeros(len(program.row) + 1)
    np.add.at(code, launch, program.gap)
    between = code[:-1][every > 0]
    paced = code[launch] <= PACE * (float(np.median(between)) if len(between) else 0.0)
    return program.change(
        length=np.where(ops, 0.0, program.length),
        latency=np.where(ops, 0.0, program.latency),
        gap=np.where(calls & paced, 0.0, program.gap),
        spent=np.where(calls, 0.0, program.spent),
    )


def without_copies(program: Program, copies: Bools) -> Program:
    """Some copies are not made: neither they nor their calls, nor the wait right after each, take time."""
    called = np.zeros(len(program.row), np.bool_)
    called[call_of(program)[copies]] = True
    waits = np.append(False, called[:-1]) & (program.waits > 0) & (program.last == program.first)
    return without_calls(without_ops(not_blocking(program, copies), copies), waits)


def copies_around(program: Program, code: Bools, into: Bools, back: Bools) -> Bools:
    """Of copies to the GPU (``into``) those right after some code before calls, which makes what they bring;
    of copies from it (``back``) those right before, whose data the code works with.
    """
    launches = program.last > program.first
    wanted = np.zeros(len(program.row) + 1, np.bool_)
    wanted[launch_of(program)[code]] = True
    after = into & wanted[call_of(program)]
    wanted[:] = False
    wanted[launched_before(launches)[code]] = True
    return np.asarray(after | (back & wanted[call_of(program)]), np.bool_)


def code_after(program: Program, code: Bools, back: Bools) -> Bools:
    """Of some code before calls that which follows one of some copies, with nothing launched in between."""
    copied = np.zeros(len(program.row) + 1, np.bool_)
    copied[call_of(program)[back]] = True
    return np.asarray(code & copied[launched_before(program.last > program.first)], np.bool_)


def launched_before(launches: Bools) -> Ints:
    """For each call the one before it that launched last; as many as there are calls: none."""
    places = np.flatnonzero(launches)
    found = np.searchsorted(places, np.arange(len(launches)), "left") - 1
    return np.where(found >= 0, np.append(places, 0)[found], len(launches))


def launch_of(program: Program) -> Ints:
    """For each call the one that launches what it is made for: itself, or the next one, which short calls
    that neither launch nor wait prepare; as many as there are calls: none.
    """
    launches = program.last > program.first
    stop = np.flatnonzero(launches | (program.waits > 0) | (program.spent > OF_ITSELF_NS))
    following = np.append(stop, len(launches))[np.searchsorted(stop, np.arange(len(launches)), "left")]
    return np.where(np.append(launches, False)[following], following, len(launches))


def call_of(program: Program) -> Ints:
    """For each operation its call."""
    return np.repeat(np.arange(len(program.row)), program.last - program.first)
