"""The exercises on Nsight Systems as the catalogue lists them: what each asks and needs, and its hints."""

from __future__ import annotations

from labcode.grading.records import Exercise, Part

_KERNEL_OVERLAP = Exercise(
    id="nsys-ex02-kernel-overlap",
    title="Kernel overlap",
    summary="Measure how many kernels run at once, say what the others waited for, then make small "
    "kernels overlap.",
    chapter="nsys/kernel-overlap",
    stars=3,
    minutes=75,
    parts=(
        Part(
            letter="a",
            title="how many kernels run at once",
            file="a_concurrency.py",
            grader="labcode.exercises.nsys.ex02_concurrency:CONCURRENCY",
            hints=(
                "Imagine walking along the time axis with a counter in your hand. At which "
                "moments does the counter change?",
                "Make one list of events: (start, +1) and (end, -1) for each kernel, sorted by "
                "time. Between two events the counter is constant.",
                "At equal times the -1 must come before the +1, or kernels that only touch seem "
                "to overlap. Tuples sort that way by themselves.",
                "Collect the time spent at each count; «at least k» is the sum over all counts "
                "from k up. The average is the sum of the durations divided "
                "by the time with at least 1.",
            ),
        ),
        Part(
            letter="b",
            title="what each kernel waited for",
            file="b_waiting.py",
            grader="labcode.exercises.nsys.ex02_waiting:WAITING",
            hints=(
                "A kernel starts when the last of its conditions comes true. Which two of them "
                "can you read off the tables?",
                "`kernels.merge(calls, on=['pid', 'correlation'], how='left')` finds the launch "
                "of each kernel; rename the call's end_ns before.",
                "«The GPU is empty» is about all kernels of the device: compare the launch with "
                "`end_ns.cummax().shift(1)` of the kernels by start.",
                "waited_for: group by pid, device and stream, go along by start, remember the "
                "latest end as `freed`. "
                "start > max(launched, freed) + slack: room. Else freed > launched: stream. Else:"
                " launch. Unknown launches update `freed` only.",
            ),
        ),
        Part(
            letter="c",
            title="make small kernels overlap",
            file="c_overlap.cu",
            grader="labcode.exercises.nsys.ex02_overlap:grade",
            needs=("gpu", "nvcc"),
            hints=(
                "One kernel of a few blocks leaves most multiprocessors empty. What keeps the "
                "next kernel from starting beside it?",
                "Create several streams in `prepare` and launch kernel k to stream k % count. Now"
                " nothing orders them: not even with the work before and after.",
                "Fork: record an event on `main`, let every stream wait for it "
                "(cudaStreamWaitEvent). Join: record an event on every stream, let "
                "`main` wait for each of them.",
                "To take the launches off the CPU as well, capture fork, launches and join once "
                "in `prepare` (cudaStreamBeginCapture on a stream of your own … "
                "cudaStreamEndCapture, cudaGraphInstantiate) and only call cudaGraphLaunch(graph,"
                " main) in `run`.",
            ),
        ),
    ),
)

_MEMORY_TIMELINE = Exercise(
    id="nsys-ex03-memory-timeline",
    title="Memory timeline",
    summary="Compute the rates that copies reach, predict what a pipeline would gain, then write the "
    "pipeline.",
    chapter="nsys/memory-timeline",
    stars=3,
    minutes=75,
    parts=(
        Part(
            letter="a",
            title="rates of copies, and how much of them is hidden",
            file="a_transfers.py",
            grader="labcode.exercises.nsys.ex03_transfers:TRANSFERS",
            hints=(
                "Bytes per nanosecond are a familiar unit in disguise. Which one?",
                "Which end of a copy is the host's depends on its direction: H2D reads from the "
                "host (src_kind), D2H writes to it (dst_kind).",
                "Add up bytes and durations for each key and divide once at the end. The mean of "
                "the single rates lets a copy of 4 KB weigh as much as one of 1 GB.",
                "Hidden share: merge the copies of a device to disjoint intervals, merge its "
                "kernels likewise, add up min(ends) - max(starts) "
                "where positive over all pairs, divide by the length of the merged copies.",
            ),
        ),
        Part(
            letter="b",
            title="a model of the pipeline",
            file="b_pipeline.py",
            grader="labcode.exercises.nsys.ex03_pipeline:PIPELINE",
            hints=(
                "Draw the diagram of the docstring for three chunks with a kernel twice as long "
                "as the copies. What does chunk 1 wait for?",
                "A chunk starts a stage at max(when it left the stage before, when the chunk "
                "before left this stage).",
                "Build the table row by row: done[c][s] = max(done[c][s-1], done[c-1][s]) + "
                "stage_ns[c][s], with 0 where there is no such neighbor.",
                "For equal chunks the table is sum(stages) + (chunks - 1) * max(stages). "
                "predict_ns: one sum of durations a stage, each divided by the "
                "repetitions: H2D copies, kernels, D2H copies.",
            ),
        ),
        Part(
            letter="c",
            title="write the pipeline",
            file="c_pipeline.cu",
            grader="labcode.exercises.nsys.ex03_pipeline_gpu:grade",
            needs=("gpu", "nvcc"),
            hints=(
                "Three engines, one thing at a time each. What is the least that lets them work "
                "on different chunks?",
                "Cut the array into chunks and give chunk c to stream c % S with its three "
                "operations in order: copy in, kernel, copy out.",
                "Each chunk needs its own part of the device's arrays: `device_in + begin`, and a"
                " grid for `end - begin` elements. Mind the last, shorter chunk.",
                "Try S = 3 to 5 and 16 to 64 chunks: few chunks leave a long way in and out, many"
                " pay for starting each operation. Wait once, at the end, for all streams.",
            ),
        ),
    ),
)

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

EXERCISES = (_KERNEL_OVERLAP, _MEMORY_TIMELINE, _MULTI_GPU_TIMELINE)
