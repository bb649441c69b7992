"""What metrics are called: a meaning in; its names by versions of ncu and chips, and its section, out.

The one table of names that differ. The first name that a report holds is taken; `section` is the section
file that collects it, for the message when none is there. Sources: the section files of Nsight Compute
2022.1 to 2025.3 and the list that ``ncu --query-metrics`` prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A meaning: its names in order of preference, the section that collects it, what it is."""

    names: tuple[str, ...]
    section: str
    meaning: str


STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
SAMPLES = "smsp__pcsamp_warps_issue_stalled_{}"
_SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"

_SOL, _ROOF, _HIER = "SpeedOfLight", "SpeedOfLight_RooflineChart", "SpeedOfLight_Hierarchical{}RooflineChart"
_TABLES, _OCC, _LAUNCH, _WARP = "MemoryWorkloadAnalysis_Tables", "Occupancy", "LaunchStats", "WarpStateStats"
_SINGLE, _TENSOR = _HIER.format("Single"), _HIER.format("Tensor")
_MEMORY, _COMPUTE, _SCHEDULER = "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis", "SchedulerStats"
_SOURCE, _INSTRUCTIONS = "SourceCounters", "InstructionStats"


def _pipe(name: str, *more: str) -> tuple[str, ...]:
    kinds = (f"sm__pipe_{name}_cycles_active", f"sm__inst_executed_pipe_{name}")
    return tuple(f"{kind}.avg.pct_of_peak_sustained_active" for kind in (*kinds, *more))


def _paths(*sources: str) -> tuple[str, ...]:
    kinds = ("src", "op_hmma_src")
    return tuple(f"sm__ops_path_tensor_{k}_{s}.sum.per_cycle_elapsed" for k in kinds for s in sources)


METRICS: Mapping[str, Metric] = {
    # time and clocks
    "duration_ns": Metric(("gpu__time_duration.sum", "gpu__time_duration.avg"), _SOL, "time of the launch"),
    "sm_clock_hz": Metric(
        (
            "gpc__cycles_elapsed.avg.per_second",
            "sm__cycles_elapsed.avg.per_second",
            "smsp__cycles_elapsed.avg.per_second",
        ),
        _SOL,
        "mean clock of the SMs",
    ),
    "dram_clock_hz": Metric(("dram__cycles_elapsed.avg.per_second",), _SOL, "mean clock of the DRAM"),
    "l2_clock_hz": Metric(("lts__cycles_elapsed.avg.per_second",), _SINGLE, "mean clock of the L2"),
    "l1_clock_hz": Metric(
        ("l1tex__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second"),
        _SINGLE,
        "clock of the L1",
    ),
    "cycles": Metric(("gpc__cycles_elapsed.max", "sm__cycles_elapsed.max"), _SOL, "cycles of the launch"),
    "sm_active_cycles": Metric(
        ("sm__cycles_active.avg",), _SOL, "cycles with a warp on the SM, mean of the SMs"
    ),
    "sm_active_cycles_max": Metric(("sm__cycles_active.max",), _SOL, "the same on the busiest SM"),
    # speed of light
    "compute_pct": Metric(
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed",), _SOL, "share of the SMs' peak throughput"
    ),
    "memory_pct": Metric(
        (
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
            "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        _SOL,
        "share of the busiest memory unit's peak throughput",
    ),
    "dram_pct": Metric(
        (
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        _SOL,
        "share of the DRAM's peak throughput",
    ),
    "l2_pct": Metric(
        ("lts__throughput.avg.pct_of_peak_sustained_elapsed",), _SOL, "share of the L2's peak throughput"
    ),
    "l1_pct": Metric(
        (
            "l1tex__throughput.avg.pct_of_peak_sustained_active",
            "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
        ),
        _SOL,
        "share of the L1's peak throughput",
    ),
    # launch and occupancy
    "registers": Metric(("launch__registers_per_thread",), _LAUNCH, "registers of a thread"),
    "static_shared_bytes": Metric(("launch__shared_mem_per_block_static",), _LAUNCH, "static shared memory"),
    "dynamic_shared_bytes": Metric(
        ("launch__shared_mem_per_block_dynamic",), _LAUNCH, "dynamic shared memory"
    ),
    "driver_shared_bytes": Metric(
        ("launch__shared_mem_per_block_driver",), _LAUNCH, "shared memory the driver keeps in each block"
    ),
    "shared_config_bytes": Metric(
        ("launch__shared_mem_config_size",), _LAUNCH, "shared memory carved out of the L1"
    ),
    "waves": Metric(("launch__waves_per_multiprocessor",), _LAUNCH, "waves of blocks"),
    "barriers": Metric(("launch__barrier_count",), _OCC, "named barriers of a block"),
    "theoretical_occupancy_pct": Metric(
        ("sm__maximum_warps_per_active_cycle_pct",), _OCC, "warps that fit ÷ warps an SM can hold"
    ),
    "theoretical_warps": Metric(("sm__maximum_warps_avg_per_active_cycle",), _OCC, "warps that fit an SM"),
    "achieved_occupancy_pct": Metric(
        ("sm__warps_active.avg.pct_of_peak_sustained_active",),
        _OCC,
        "warps there were ÷ warps an SM can hold",
    ),
    "limit_registers": Metric(("launch__occupancy_limit_registers",), _OCC, "blocks that fit by registers"),
    "limit_shared": Metric(("launch__occupancy_limit_shared_mem",), _OCC, "blocks that fit by shared memory"),
    "limit_warps": Metric(("launch__occupancy_limit_warps",), _OCC, "blocks that fit by warps"),
    "limit_blocks": Metric(("launch__occupancy_limit_blocks",), _OCC, "blocks an SM can hold"),
    "limit_barriers": Metric(("launch__occupancy_limit_barriers",), _OCC, "blocks that fit by barriers"),
    # schedulers and stalls
    "warps_per_scheduler": Metric(
        ("smsp__warps_active.avg.per_cycle_active",), _SCHEDULER, "warps of a scheduler"
    ),
    "eligible_warps": Metric(
        ("smsp__warps_eligible.avg.per_cycle_active",), _SCHEDULER, "warps of a scheduler that could issue"
    ),
    "issue_pct": Metric(
        ("smsp__issue_active.avg.pct_of_peak_sustained_active",),
        _SCHEDULER,
        "cycles that issued an instruction",
    ),
    "latency_per_issue": Metric(
        ("smsp__average_warp_latency_per_inst_issued.ratio",), _WARP, "cycles of a warp between two issues"
    ),
    "threads_per_instruction": Metric(
        ("smsp__thread_inst_executed_per_inst_executed.ratio",), _WARP, "threads active in an instruction"
    ),
    "predicated_threads_per_instruction": Metric(
        ("smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",), _WARP, "of these, not predicated off"
    ),
    "samples": Metric(("smsp__pcsamp_sample_count",), _SOURCE, "samples of warp states"),
    "branch_uniform_pct": Metric(
        ("smsp__sass_average_branch_targets_threads_uniform.pct",), _SOURCE, "branches all threads took alike"
    ),
    "divergent_branches": Metric(
        (
            "smsp__sass_branch_targets_threads_divergent.sum",
            "smsp__branch_targets_threads_divergent",
            "smsp__sass_branch_targets_threads_divergent.avg",
        ),
        _SOURCE,
        "branches that split a warp",
    ),
    "instructions": Metric(("smsp__inst_executed.sum", "inst_executed"), _INSTRUCTIONS, "warp instructions"),
    "ipc": Metric(
        ("sm__inst_executed.avg.per_cycle_active",), _COMPUTE, "instructions of an SM in an active cycle"
    ),
    # pipes, share of their peak while the SM was active
    "pipe_fma_pct": Metric(_pipe("fma"), _COMPUTE, "FP32 fused multiply-add pipe"),
    "pipe_fmaheavy_pct": Metric(
        (
            "sm__pipe_fmaheavy_cycles_active.avg.pct_of_peak_sustained_active",
            "sm__pipe_fmaheavy_cycles_active.avg.pct_of_peak_sustained_elapsed",
        ),
        _COMPUTE,
        "the half of the FMA pipe that multiplies integers, too",
    ),
    "pipe_adu_pct": Metric(_pipe("adu"), _COMPUTE, "pipe of address divergence: votes, matches, barriers"),
    "pipe_alu_pct": Metric(_pipe("alu"), _COMPUTE, "integer and logic pipe"),
    "pipe_fp64_pct": Metric(_pipe("fp64", "sm__inst_executed_pipe_fp64_op_fp64"), _COMPUTE, "FP64 pipe"),
    "pipe_tensor_pct": Metric(
        _pipe("tensor", "sm__pipe_tensor_op_hmma_cycles_active", "sm__inst_executed_pipe_tensor_op_hmma"),
        _COMPUTE,
        "tensor pipe",
    ),
    "pipe_lsu_pct": Metric(_pipe("lsu"), _COMPUTE, "load and store pipe"),
    "pipe_xu_pct": Metric(_pipe("xu"), _COMPUTE, "transcendental and conversion pipe"),
    # memory
    "dram_bytes_per_s": Metric(("dram__bytes.sum.per_second",), _MEMORY, "DRAM traffic"),
    "dram_bytes": Metric(("dram__bytes.sum",), _TABLES, "DRAM traffic"),
    "dram_read_bytes": Metric(("dram__bytes_read.sum", "dram__bytes_op_read.sum"), _TABLES, "DRAM reads"),
    "dram_write_bytes": Metric(("dram__bytes_write.sum", "dram__bytes_op_write.sum"), _TABLES, "DRAM writes"),
    "dram_peak_bytes_per_cycle": Metric(("dram__bytes.sum.peak_sustained",), _ROOF, "DRAM bytes of a cycle"),
    "l2_bytes_per_s": Metric(
        ("derived__lts__lts2xbar_bytes.sum.per_second", "lts__t_bytes.sum.per_second"), _SINGLE, "L2 traffic"
    ),
    "l2_peak_bytes_per_cycle": Metric(
        ("derived__lts__lts2xbar_bytes.sum.peak_sustained", "lts__t_bytes.sum.peak_sustained"),
        _SINGLE,
        "L2 bytes of a cycle",
    ),
    "l1_bytes_per_s": Metric(
        (
            "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.per_second",
            "derived__l1tex__lsu_writeback_bytes_mem_lg.sum.per_second",
            "l1tex__t_bytes.sum.per_second",
        ),
        _TENSOR,
        "L1 traffic",
    ),
    "l1_peak_bytes_per_cycle": Metric(
        (
            "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained",
            "derived__l1tex__lsu_writeback_bytes_mem_lg.sum.peak_sustained",
            "l1tex__t_bytes.sum.peak_sustained",
        ),
        _TENSOR,
        "L1 bytes of a cycle",
    ),
    "l1_hit_pct": Metric(("l1tex__t_sector_hit_rate.pct",), _MEMORY, "L1 hits"),
    "l2_hit_pct": Metric(("lts__t_sector_hit_rate.pct",), _MEMORY, "L2 hits"),
    **{
        f"global_{op}_sectors": Metric((_SECTORS.format(op),), _TABLES, f"sectors of global {word}")
        for op, word in (("ld", "loads"), ("st", "stores"), ("red", "reductions"), ("atom", "atomics"))
    },
    **{
        f"global_{op}_requests": Metric((_REQUESTS.format(op),), _TABLES, f"requests of global {word}")
        for op, word in (("ld", "loads"), ("st", "stores"), ("red", "reductions"), ("atom", "atomics"))
    },
    **{
        f"shared_{op}_conflicts": Metric(
            (_CONFLICTS.format(op),), _TABLES, f"bank conflicts of shared {word}"
        )
        for op, word in (("ld", "loads"), ("st", "stores"), ("atom", "atomics"))
    },
    **{
        f"shared_{op}_wavefronts": Metric((_WAVEFRONTS.format(op),), _TABLES, f"wavefronts of shared {word}")
        for op, word in (("ld", "loads"), ("st", "stores"), ("atom", "atomics"))
    },
    "sectors_ideal": Metric(
        ("memory_l2_theoretical_sectors_global_ideal",), _SOURCE, "sectors the accesses would need at best"
    ),
    "sectors_asked": Metric(
        ("memory_l2_theoretical_sectors_global",), _SOURCE, "sectors the accesses ask for"
    ),
    "wavefronts_shared": Metric(("memory_l1_wavefronts_shared",), _SOURCE, "wavefronts of shared memory"),
    "wavefronts_shared_ideal": Metric(
        ("memory_l1_wavefronts_shared_ideal",), _SOURCE, "the wavefronts they would need at best"
    ),
    "local_loads": Metric(("smsp__sass_inst_executed_op_local_ld.sum",), _TABLES, "loads from local memory"),
    "local_stores": Metric(("smsp__sass_inst_executed_op_local_st.sum",), _TABLES, "stores to local memory"),
    "spill_requests": Metric(
        ("derived__local_spilling_requests", "sass__inst_executed_register_spilling"),
        _MEMORY,
        "requests to local memory that spills cause",
    ),
    "spill_requests_pct": Metric(
        ("derived__local_spilling_requests_pct",), _MEMORY, "their share of the requests to the L1"
    ),
    # floating-point operations of a cycle, all SMs together (a fused multiply-add counts once here)
    **{
        f"{op}_per_cycle": Metric(
            (_SASS.format(op),), _ROOF if op[0] != "h" else _HIER.format("Half"), op.upper()
        )
        for op in ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma", "hadd", "hmul", "hfma")
    },
    "ffma_flops_per_cycle": Metric(
        ("derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2",),
        _ROOF,
        "FFMA operations, counted twice",
    ),
    "dfma_flops_per_cycle": Metric(
        ("derived__smsp__sass_thread_inst_executed_op_dfma_pred_on_x2",),
        _ROOF,
        "DFMA operations, counted twice",
    ),
    "hadd_flops_per_cycle": Metric(
        ("derived__smsp__sass_thread_inst_executed_op_hadd_pred_on_x2",), _HIER.format("Half"), "HADD2, twice"
    ),
    "hmul_flops_per_cycle": Metric(
        ("derived__smsp__sass_thread_inst_executed_op_hmul_pred_on_x2",), _HIER.format("Half"), "HMUL2, twice"
    ),
    "hfma_flops_per_cycle": Metric(
        ("derived__smsp__sass_thread_inst_executed_op_hfma_pred_on_x4",),
        _HIER.format("Half"),
        "HFMA2, four times",
    ),
    "ffma_peak_per_cycle": Metric(
        ("derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2",), _ROOF, "FP32 peak of a cycle"
    ),
    "dfma_peak_per_cycle": Metric(
        ("derived__sm__sass_thread_inst_executed_op_dfma_pred_on_x2",), _ROOF, "FP64 peak of a cycle"
    ),
    "hfma_peak_per_cycle": Metric(
        ("derived__sm__sass_thread_inst_executed_op_hfma_pred_on_x4",),
        _HIER.format("Half"),
        "FP16 peak of a cycle",
    ),
    "tensor_fp16_per_cycle": Metric(
        _paths("fp16", "fp16_dst_fp32", "fp16_bf16_tf32_dst_fp32"), _TENSOR, "FP16 tensor operations"
    ),
    "tensor_bf16_per_cycle": Metric(_paths("bf16_dst_fp32"), _TENSOR, "BF16 tensor operations"),
    "tensor_tf32_per_cycle": Metric(_paths("tf32_dst_fp32"), _TENSOR, "TF32 tensor operations"),
    "tensor_fp8_per_cycle": Metric(
        _paths("fp8_sparsity_off", "fp8", "fp8_dst_fp32", "fp4_fp6_fp8_dst_fp32"),
        _TENSOR,
        "FP8 tensor operations",
    ),
    "tensor_fp64_per_cycle": Metric(_paths("fp64"), _TENSOR, "FP64 tensor operations"),
    "tensor_fp16_peak_per_cycle": Metric(
        tuple(
            f"sm__ops_path_tensor_{path}_sparsity_off.sum.peak_sustained"
            for path in ("op_hgmma_src_fp16", "src_fp16_dst_fp32", "op_hmma_src_fp16_dst_fp32")
        ),
        _TENSOR,
        "FP16 tensor peak of a cycle, dense",
    ),
}

# State of a warp → the endings of its metric's name in warp-state metrics and in samples, where they
# differ.
STALL_ENDINGS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "barrier": (("barrier",), ("barrier",)),
    "branch_resolving": (("branch_resolving",), ("branch_resolving",)),
    "dispatch_stall": (("dispatch_stall",), ("dispatch_stall",)),
    "drain": (("drain",), ("drain",)),
    "gmma": (("gmma", "warpgroup_arrive"), ("warpgroup_arrive", "gmma")),
    "imc_miss": (("imc_miss",), ("imc_miss",)),
    "lg_throttle": (("lg_throttle",), ("lg_throttle",)),
    "long_scoreboard": (("long_scoreboard",), ("long_scoreboard",)),
    "math_pipe_throttle": (("math_pipe_throttle",), ("math_pipe_throttle",)),
    "membar": (("membar",), ("membar",)),
    "mio_throttle": (("mio_throttle",), ("mio_throttle",)),
    "misc": (("misc",), ("misc",)),
    "no_instruction": (("no_instruction", "no_inst"), ("no_instructions", "no_instruction")),
    "not_selected": (("not_selected",), ("not_selected",)),
    "selected": (("selected",), ("selected",)),
    "short_scoreboard": (("short_scoreboard",), ("short_scoreboard",)),
    "sleeping": (("sleeping",), ("sleeping",)),
    "tex_throttle": (("tex_throttle",), ("tex_throttle",)),
    "wait": (("wait",), ("wait",)),
}

# Metrics that ncu 2025.3 shows in a section's header and the package ncu-report leaves out of it, or
# gives no
# unit: (section, name) → label, unit, the name it is sorted by (headers are in the order of the names).
HEADER_EXTRAS: Mapping[tuple[str, str], tuple[str, str, str]] = {
    ("PmSampling", "profiler__pmsampler_interval_time"): ("Maximum Sampling Interval", "ns", ""),
    (_MEMORY, "lrc__ilc_input_sectors.sum"): ("L2 Compression Input Sectors", "sector", "lts__gcomp"),
    (_MEMORY, "lts__average_gcomp_output_sector_compression_achieved_rate.ratio"): (
        "L2 Compression Ratio",
        "%",
        "",
    ),
    # what the section names where a chip has them and the report none of the above
    (_MEMORY, "lrc__average_ilc_input_sector_success_rate.pct"): (
        "L2 Compression Success Rate",
        "%",
        "lts__average_gcomp_input_sector_success_rate.pct",
    ),
    (_MEMORY, "lrc__average_ilc_output_sector_compression_achieved_rate.pct"): (
        "L2 Compression Ratio",
        "%",
        "lts__average_gcomp_output_sector_compression_achieved_rate.ratio",
    ),
}


def stall_names(state: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a warp state: in the warp-state metrics, and in the samples."""
    metric, sample = STALL_ENDINGS[state]
    return tuple(STALL.format(ending) for ending in metric), tuple(SAMPLES.format(end) for end in sample)
