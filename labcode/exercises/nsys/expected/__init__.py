"""The answers that graders compare with: hidden inputs in, what `labcode.analysis` says of them out."""

from labcode.exercises.nsys.expected.multi_gpu import (
    best_bucket_bytes,
    buckets,
    communication,
    exposed_ns,
    is_collective,
    lateness_ns,
    straggler,
)
from labcode.exercises.nsys.expected.overlap import (
    average_concurrency,
    launch_bound_share,
    overlap_diagnosis,
    overlapping_streams,
    time_at_least,
    waited_for,
    with_launches,
)
from labcode.exercises.nsys.expected.tables import Window, per_device, spans
from labcode.exercises.nsys.expected.transfers import (
    achieved_gb_per_s,
    best_chunks,
    finish_times,
    hidden_copy_share,
    pipelined_ns,
    stage_ns,
)

__all__ = [
    "Window",
    "achieved_gb_per_s",
    "average_concurrency",
    "best_bucket_bytes",
    "best_chunks",
    "buckets",
    "communication",
    "exposed_ns",
    "finish_times",
    "hidden_copy_share",
    "is_collective",
    "lateness_ns",
    "launch_bound_share",
    "overlap_diagnosis",
    "overlapping_streams",
    "per_device",
    "pipelined_ns",
    "spans",
    "stage_ns",
    "straggler",
    "time_at_least",
    "waited_for",
    "with_launches",
]
