"""The exercises on Nsight Systems as the catalogue lists them: what each asks and needs, and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

_MULTI_GPU_TIMELINE = Exercise(
    id="nsys-ex04-multi-gpu-timeline",
    title="Multi-GPU timeline",
    summary="Compute the communication that computing does not hide, find the GPU all others wait for, "
    "choose a bucket size, then overlap the reduction.",
    chapter="nsys/multi-gpu",
    stars=4,
    minutes=90,
    parts=(
        Part(
            letter="a",
            title="exposed communication and stragglers",
            file="a_exposed.py",
            grader="labcode.exercises.nsys.ex04_exposed:EXPOSED",
            hints=(
                "A collective that takes long: does its GPU have much to send, or does it wait for somebody?",
                "Exposed time is time with a collective and without any other kernel on the same "
                "device. Merge both kinds first, then subtract.",
                "For lateness, sort the starts of the collectives of each device and line them up"
                " with zip: the n-th of each belong together. "
                "zip stops at the shortest, which is what is asked for.",
                "lateness[device] += start - min(all starts of that collective). The straggler "
                "has the largest sum; the devices with the longest "
                "collectives are its victims.",
            ),
        ),
        Part(
            letter="b",
            title="a model of gradient buckets",
            file="b_buckets.py",
            grader="labcode.exercises.nsys.ex04_buckets:BUCKETS",
            hints=(
                "What makes a very small bucket bad, and what makes a very large one bad? The "
                "model has one number for each.",
                "buckets: keep the time so far and the bytes in the open bucket. Add a layer to "
                "both, then look whether the bucket is full.",
                "exposed_ns: keep when the network is free. A bucket begins at max(free, ready) "
                "and sets free to that plus latency plus bytes / bytes_per_ns.",
                "The backward pass ends at the sum of all backward_ns; exposed is free minus "
                "that. For ties: min over candidates with the key "
                "(exposed, -size).",
            ),
        ),
        Part(
            letter="c",
            title="reduce gradients while the backward pass goes on",
            file="c_overlap.py",
            grader="labcode.exercises.nsys.ex04_overlap:grade",
            needs=("2 gpus", "torch"),
            hints=(
                "When does the gradient of the last layer exist? Who could tell you at that moment?",
                "`parameter.register_post_accumulate_grad_hook(function)` calls the function with"
                " the parameter as soon as its gradient is there, in the middle of the pass.",
                "`torch.distributed.all_reduce(tensor, async_op=True)` gives back a handle at "
                "once; NCCL works on a stream of its own. Call `wait()` on all handles in "
                "`finish`.",
                "One call a parameter pays the latency each time: put the gradients of several "
                "parameters in one flat tensor (views of it can be the `.grad`s), "
                "and start the call when the last of them has arrived. Divide by the number of "
                "ranks at the end.",
            ),
        ),
    ),
)

EXERCISES = (_MULTI_GPU_TIMELINE,)
