"""Exercise compute-ex05, part a: which access pattern is it?

Launches without names. All you have is what Nsight Compute counted, and how many bytes each needs to read and
to write at least. A table comes in, one row per launch:

    launch                 its number
    wanted_read_bytes      what it has to read, each byte once
    wanted_write_bytes     what it has to write, each byte once
    load_requests          l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum    instructions of warps that load
    load_sectors           l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum     sectors of 32 bytes they touched
    store_requests         the same for stores
    store_sectors
    dram_read_bytes        dram__bytes_read.sum
    instructions           smsp__inst_executed.sum                             of all warps
    stall_cycles           smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio
                           cycles that a warp waited for memory, an instruction

`evidence` gives three numbers per launch: sectors per load request; the share of the touched sectors' bytes
that were wanted; and how many times the wanted bytes the DRAM read. A number without a divisor is None.

`patterns` gives the first of these that fits. The copy engine (TMA) makes no requests of loads and stores.

    'no reads'            no bytes are wanted
    'bulk copy'           bytes are wanted, and no load asked for them
    'strided'             less than 0.7 of the loads' sectors was wanted, and of the stores' as little
    'gather'              less than 0.7 of the loads' sectors was wanted
    'misaligned'          less than 0.9 of the loads' sectors was wanted
    'scattered sectors'   whole sectors, but the DRAM read more than 1.2 times the wanted bytes
    'wide'                more than 8 sectors per request, and they are all wanted
    'coalesced'           everything else

`waits` gives the cycles that a warp waits for memory for each of its loads, None without loads. A warp's
stalls are counted for each instruction; there are more instructions than loads.

A worked example (bytes and counts are small, to keep it readable):

    launch  wanted_read_bytes  wanted_write_bytes  load_requests  load_sectors  ...  dram_read_bytes  ...
         0              12800               12800            100           400                 12800
         1              12800               12800            100          3200                 51200

    with 100 store requests, 400 and 3200 store sectors, 2000 instructions and 50.0 stall cycles each:

    evidence(table)  ->  {0: (4.0, 1.0, 1.0), 1: (32.0, 0.125, 4.0)}
    patterns(table)  ->  {0: 'coalesced', 1: 'strided'}
    waits(table)     ->  {0: 1000.0, 1: 1000.0}

Grade it:         labcode exercises compute-ex05a        (or: nox -s exercises -- compute-ex05a)
Get a hint:       labcode exercises compute-ex05a --hint
"""

import pandas as pd

SECTOR = 32

Numbers = tuple[float | None, float | None, float | None]


def evidence(table: pd.DataFrame) -> dict[int, Numbers]:
    """Sectors a load request, the wanted share of their bytes, DRAM reads over wanted reads; by launch."""
    raise NotImplementedError("three divisions; None where the divisor is 0")


def patterns(table: pd.DataFrame) -> dict[int, str]:
    """The first pattern of the list above that fits, by launch."""
    raise NotImplementedError("a chain of ifs in the order of the list; stores have a share of their own")


def waits(table: pd.DataFrame) -> dict[int, float | None]:
    """Cycles that a warp waits for memory for each load, by launch; None without loads."""
    raise NotImplementedError("all cycles of waiting are stall_cycles for each of the instructions")


if __name__ == "__main__":
    columns = ["launch", "wanted_read_bytes", "wanted_write_bytes", "load_requests", "load_sectors"]
    columns += ["store_requests", "store_sectors", "dram_read_bytes", "instructions", "stall_cycles"]
    rows = [
        (0, 12800, 12800, 100, 400, 100, 400, 12800, 2000, 50.0),
        (1, 12800, 12800, 100, 3200, 100, 3200, 51200, 2000, 50.0),
    ]
    example = pd.DataFrame(rows, columns=columns)
    for launch, pattern in patterns(example).items():
        print(
            f"launch {launch}: {pattern}, {evidence(example)[launch]}, waits {waits(example)[launch]} cycles"
        )
