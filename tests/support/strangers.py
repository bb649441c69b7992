"""Ordinary, unmarked programs, made up: a training loop with one fault in, an export of nsys out.

`Machine` plays a process with one GPU: code of Python takes time, calls of CUDA take a little, what they
launch runs on a stream when its turn comes, and waiting waits. `program` is a loop of training as PyTorch
runs it, with seconds of start-up before it, no ranges at all, and one fault. All times are in ns.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support import exports as x
from tests.support.stacks import ON_CUDA, Frame, python_stacks

US, MS, S = 1_000, 1_000_000, 1_000_000_000
TENSOR = "nvjet_sm90_tst_192x192_64x3_2x1_v_bz_coopB_NNN"
SIMT = "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)"
DOUBLE = SIMT.replace("simt_sgemm_256x128_8x4_nn", "tensorop_d884gemm_64x32_16x4_tn")
ADD = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, "
    "std::array<char *, (unsigned long)3>>(int, T2, T3)"
)
MUL = ADD.replace("CUDAFunctor_add<float>", "BinaryFunctor<float, float, float, MulFunctor<float>>")
NORM = "void at::native::<unnamed>::vectorized_layer_norm_kernel<float, float, (bool)0>(int, T2, const T1 *)"
LOSS = "void at::native::<unnamed>::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(T1 *, T1 *)"
FOREACH = (
    "void at::native::<unnamed>::multi_tensor_apply_kernel<{}Functor<float, (int){}, (int){}, (int)0>>(T1)"
)
ADAM = "void at::native::<unnamed>::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, (int)4>>(T1)"
INDEX = "void <unnamed>::indexing_backward_kernel<float, (int)4>(const long *, const long *, const T1 *)"
FILL = ADD.replace("CUDAFunctor_add<float>", "FillFunctor<float>")
ROWS = "void at::native::<unnamed>::{}<float, long>(const T2 *, T1 *, long, const T2 *)"
RELAY = (
    "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<"
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)>>(int, T3)"
)
SOFTMAX = "void <unnamed>::softmax_warp_{}<c10::BFloat16, c10::BFloat16, float, (int)11, (bool)0>(T1 *, int)"
IS_NAN = ADD.replace("CUDAFunctor_add<float>", "BinaryFunctor<float, float, bool, CompareEqFunctor<float>>")
ANY = "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<bool, or_kernel_cuda>>(T3)"
TO_NHWC = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, (bool)0, (bool)1>(T1)"
BATCH_NORM = "void at::native::batch_norm_{}<c10::BFloat16, float, int>(T1)"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
HERE: Frame = ("train", "/home/me/project/train.py", 40)
TORCH: Frame = ("forward", "/usr/lib/python3/site-packages/torch/nn/modules/linear.py", 125)


class Machine:
    """A process with one GPU; rows of tables in ``tables``, stacks in ``stacks``."""

    def __init__(self, *, pid: int = 100, device: int = 0, seed: int = 1, stacks: bool = False) -> None:
        self.pid, self.device, self.with_stacks = pid, device, stacks
        self.tid = pid
        self.blocking = False  # whether launches wait for their kernels
        self.launching = 5 * US  # ns of a launch call
        self.now = 0
        self.free: dict[int, int] = {}
        self.random = random.Random(seed)
        self.count = 0
        self.tables: dict[str, list[Any]] = {"kernels": [], "memcpys": [], "api": [], "osrt": []}
        self.stacks: list[tuple[int, Sequence[Frame]]] = []
        self.place: Frame = HERE

    def python(self, ns: int) -> None:
        """Code of the program, a few percent more or less."""
        self.now += int(ns * self.random.uniform(0.97, 1.03))

    def call(self, name: str, ns: int, correlation: int = 0) -> tuple[int, int]:
        """A call of CUDA."""
        start = self.now
        if self.with_stacks:
            self.stacks.append((start + 1, (TORCH, self.place)))
        self.now += ns
        self.tables["api"].append(
            x.call(start, self.now, f"{name}_v3020", pid=self.pid, tid=self.tid, correlation=correlation)
        )
        return start, self.now

    def launch(
        self, name: str, ns: int, *, blocks: int = 1024, stream: int = 7, host: int = 8 * US, after: int = 0
    ) -> int:
        """Code of PyTorch's and a kernel's launch; when the kernel will have ended."""
        self.python(host)
        self.count += 1
        begun, long = self.now, int(ns * self.random.uniform(0.99, 1.01))
        self.call("cudaLaunchKernel", self.launching + (long + 6 * US if self.blocking else 0), self.count)
        start = max(self.free.get(stream, 0) + US, begun + 7 * US, after)
        end = start + long
        self.free[stream] = end
        where = {"pid": self.pid, "device": self.device, "correlation": self.count, "stream": stream}
        self.tables["kernels"].append(x.kernel(start, end, name, grid=(blocks, 1, 1), **where))
        return end

    def copy(
        self, size: int, *, inward: bool = True, pinned: bool = False, stream: int = 7, staged: bool = False
    ) -> int:
        """A copy between host and GPU, asynchronous by name; pageable ones make the CPU wait, but for small
        ones to the GPU, which are ``staged``.
        """
        self.count += 1
        start = self.now
        rate = 50 if pinned else 8
        begin = max(self.free.get(stream, 0) + US, self.now + (8 if staged else 4) * US)
        end = begin + 2 * US + size // rate
        self.free[stream] = end
        self.call("cudaMemcpyAsync", 6 * US if pinned or staged else end + 2 * US - start, self.count)
        ends = {"src": (1 if pinned else 0, 2), "dst": (2, 1 if pinned else 0)}
        src, dst = (ends["src"][0], 2) if inward else (2, ends["dst"][1])
        where = {"pid": self.pid, "device": self.device, "correlation": self.count, "stream": stream}
        self.tables["memcpys"].append(
            x.memcpy(begin, end, size, 1 if inward else 2, src=src, dst=dst, **where)
        )
        return end

    def wait(self, name: str = "cudaStreamSynchronize", until: int | None = None) -> None:
        """Wait for all that was launched."""
        done = max(self.free.values(), default=0) if until is None else until
        self.call(name, max(done + 3 * US - self.now, 4 * US))

    def item(self) -> None:
        """Read a number."""
        self.copy(4, inward=False)
        self.wait()

    def send(self, size: int) -> None:
        """``.to("cuda")`` of a small tensor, as PyTorch calls it: asks about a graph, copies and waits."""
        self.python(18 * US)
        self.call("cudaStreamIsCapturing", 400)
        self.now += 600
        self.copy(size, staged=True)
        self.now += 200
        self.wait()

    def start_up(self) -> None:
        """Four seconds of imports, half a second for the context, loading of code with the first kernels."""
        for _ in range(20):
            begin = self.now
            self.now += 200 * MS
            self.tables["osrt"].append(x.osrt(begin, self.now, "read", pid=self.pid, tid=self.pid))
        self.call("cuInit", 100 * MS)
        self.call("cuDevicePrimaryCtxRetain", 300 * MS)
        for _ in range(6):
            self.call("cuLibraryLoadData", 30 * MS)
            self.python(MS)

    def export(self, path: Path, *others: "Machine", **more: Any) -> Path:
        """Write what happened."""
        tables = {name: list(rows) for name, rows in self.tables.items()}
        extra: list[str] = list(more.pop("extra_sql", ()))
        for other in others:
            for name, rows in other.tables.items():
                tables[name] += rows
        for one in (self, *others):
            if one.with_stacks:
                extra += python_stacks(one.stacks, kind=ON_CUDA, pid=one.pid, tid=one.pid)
        if extra and "nvtx" not in more:
            more["nvtx"] = [x.domain(9, ON_CUDA, pid=self.pid, tid=self.pid)]
        return x.make_export(path, **tables, extra_sql=extra, **more)


def layer(m: Machine, ns: int, gemm: str, elementwise: int = 2, small: int = 10 * US) -> None:
    """A layer: a matmul and some arithmetic."""
    m.launch(gemm, ns)
    for which in range(elementwise):
        m.launch((ADD, MUL)[which % 2], small)
        if which == 0:
            m.launch(NORM, small)


def train(
    m: Machine,
    *,
    steps: int = 30,
    layers: int = 8,
    gemm_ns: int = 300 * US,
    gemm: str = TENSOR,
    elementwise: int = 2,
    small: int = 10 * US,
    batch: Callable[[Machine, int], None] | None = None,
    in_layer: Callable[[Machine], None] | None = None,
    after: Callable[[Machine, int], None] | None = None,
    update: Callable[[Machine], None] | None = None,
) -> Machine:
    """A loop of training: a batch, forward and backward through the layers, an update (a fused Adam's)."""
    for step in range(steps):
        m.place = ("train", "/home/me/project/train.py", 20)
        if batch is None:
            m.python(50 * US)
            m.copy(1 << 20, pinned=True, stream=20)
        else:
            batch(m, step)
        m.place = HERE
        if step == 0:
            m.call("cuModuleLoadData", 40 * MS)
        for _ in range(layers):
            layer(m, gemm_ns, gemm, elementwise, small)
            if in_layer is not None:
                in_layer(m)
        m.launch(LOSS, 8 * US)
        for _ in range(layers):
            m.launch(gemm, gemm_ns)
            m.launch(gemm, gemm_ns)
            m.launch(ADD, small)
        if update is None:
            m.launch(ADAM, 60 * US)
        else:
            update(m)
        if after is not None:
            m.place = ("train", "/home/me/project/train.py", 50)
            after(m, step)
    m.wait("cudaDeviceSynchronize")
    return m


def started(**options: Any) -> Machine:
    """A machine after its start-up."""
    machine = Machine(**options)
    machine.start_up()
    return machine


def checks(m: Machine) -> None:
    """Four results of a layer are checked for NaN, as autograd does while it looks for anomalies."""
    for _ in range(4):
        m.launch(IS_NAN, 2 * US)
        m.launch(ANY, 5 * US)
        m.item()


def contiguous(m: Machine) -> None:
    """A layer in NCHW: its input is turned over for the convolution; a block for each of 66 channels."""
    m.launch(TO_NHWC, 400 * US)
    m.launch(BATCH_NORM.format("collect_statistics_kernel"), 800 * US, blocks=66)


def checkpointed(
    m: Machine, *, again: bool = True, steps: int = 30, layers: int = 8, each: int = 1
) -> Machine:
    """A loop whose backward pass, on a thread of its own, computes each ``each``-th layer again, or none."""
    for step in range(steps):
        m.python(50 * US)
        if step == 0:
            m.call("cuModuleLoadData", 40 * MS)
        for _ in range(layers):
            layer(m, 300 * US, TENSOR)
        m.launch(LOSS, 8 * US)
        m.tid = m.pid + 1
        for number in range(layers):
            if again and number % each == 0:
                layer(m, 300 * US, TENSOR)
            for _ in range(2):
                m.launch(TENSOR.replace("NNN", "TNN"), 300 * US)
            m.launch(ADD, 10 * US)
        m.tid = m.pid
        m.launch(ADAM, 60 * US)
    m.wait("cudaDeviceSynchronize")
    return m


def attention(
    m: Machine, *, scale: int = 0, way: str = "forward", soft: int = 600 * US, to: str = TENSOR
) -> None:
    """Attention, written out: scores, which a softmax goes through, alone or after a scale, and a product."""
    m.launch(TENSOR, 100 * US)
    if scale:
        m.launch(MUL, scale)
    m.launch(SOFTMAX.format(way), soft)
    m.launch(to, 100 * US)


def loads(ns: int) -> Callable[[Machine, int], None]:
    """A batch that takes some time to load, then a pageable copy."""

    def batch(m: Machine, step: int) -> None:
        m.python(ns)
        m.copy(1 << 20)

    return batch


def big_copies(m: Machine, step: int) -> None:
    """A large batch from pinned memory, on the stream that computes."""
    m.python(30 * US)
    m.copy(200 << 20, pinned=True)


def pageable_batches(m: Machine, step: int) -> None:
    """A large batch from pageable memory."""
    m.python(30 * US)
    m.copy(30 << 20)


def results_back(m: Machine, step: int) -> None:
    """All predictions, copied to the host."""
    m.copy(24 << 20, inward=False)
    m.wait()


def checkpoint(m: Machine, step: int) -> None:
    """Every fifth step something is written for a long time."""
    if step % 5 == 4:
        m.place = ("save_checkpoint", "/home/me/project/train.py", 61)
        m.call("cudaEventRecord", US)
        m.python(60 * MS)
        m.call("cudaEventRecord", US)


def allocates(m: Machine) -> None:
    """A buffer of its own in each layer."""
    m.call("cudaMalloc", 900 * US)
    m.wait("cudaFree")


def logs(m: Machine) -> None:
    """A number is read in each layer, and something is done with it."""
    m.item()
    m.python(60 * US)


def compiles(m: Machine, step: int) -> None:
    """A new shape in every step."""
    m.python(200 * US)
    m.call("cuModuleLoadData", 30 * MS)


def adam_in_passes(m: Machine) -> None:
    """An update of many parameters by Adam: an operation after another, each over all of them."""
    for functor, lists, reads in (("Lerp", 2, 2), ("Times", 1, 1), ("Addcmul", 3, 3), ("Sqrt", 2, 1)):
        m.launch(FOREACH.format(functor, lists, reads), (reads + 1) * 200 * US)
    for functor, lists, reads in (("Divide", 1, 1), ("Plus", 1, 1), ("Addcdiv", 3, 3)):
        m.launch(FOREACH.format(functor, lists, reads), (reads + 1) * 200 * US)


def whole_table(m: Machine) -> None:
    """The gradient of a large table, of which few rows were looked up; Adam over all of it, and the rest."""
    for _ in range(2):  # more bytes than 32 bits number
        m.launch(FILL, 400 * US)
    m.launch(ROWS.format("compute_grad_weight"), 100 * US)
    m.launch(ROWS.format("sum_and_scatter"), 100 * US)
    for _ in range(40):
        m.launch(ADAM, 200 * US)
    m.launch(FOREACH.format("Plus", 1, 1), 2 * US)


FAULTS: dict[str, Callable[[Machine], Machine]] = {
    "good": train,
    "data-loading": lambda m: train(m, batch=loads(15 * MS)),
    "host-code": lambda m: train(m, after=checkpoint),
    "sync-in-loop": lambda m: train(m, gemm_ns=100 * US, in_layer=logs),
    "launch-bound": lambda m: train(m, layers=40, gemm_ns=4 * US, small=2 * US),
    "pageable-copies": lambda m: train(m, batch=pageable_batches),
    "copies-not-hidden": lambda m: train(m, batch=big_copies),
    "results-copied-back": lambda m: train(m, after=lambda m, _: results_back(m, 0)),
    "no-tensor-cores": lambda m: train(m, gemm=SIMT),
    "double-precision": lambda m: train(m, gemm=DOUBLE),
    "unfused-elementwise": lambda m: train(m, elementwise=12, small=90 * US),
    "allocation-in-loop": lambda m: train(m, in_layer=allocates),
    "compiling-in-loop": lambda m: train(m, after=compiles),
    "layout-conversions": lambda m: train(m, in_layer=lambda m: m.launch(RELAY, 400 * US) and None),
    "atomics": lambda m: train(m, in_layer=lambda m: m.launch(INDEX, 400 * US) and None),
    "dense-embedding": lambda m: train(m, update=whole_table),
    "optimizer-passes": lambda m: train(m, update=adam_in_passes),
    "nan-checks": lambda m: train(m, gemm_ns=100 * US, in_layer=checks),
    "small-grids": lambda m: train(m, in_layer=lambda m: m.launch(TENSOR, 600 * US, blocks=8) and None),
}


def program(fault: str, path: Path, *, stacks: bool = False) -> Path:
    """The export of a loop with a fault, or of a good one."""
    return FAULTS[fault](started(stacks=stacks)).export(path)


def ranks(path: Path, *, late: int = 1, extra: int = 3 * MS, steps: int = 20, count: int = 2) -> Path:
    """Ranks that reduce gradients after each layer, of which one works on its own code in each step."""
    machines = [started(pid=100 + rank, device=rank, seed=rank) for rank in range(count)]
    for step in range(steps):
        for rank, m in enumerate(machines):
            m.python(extra if rank == late else 50 * US)
            if step == 0:
                m.now = max(one.now for one in machines)
        for _ in range(4):
            for m in machines:
                layer(m, 200 * US, TENSOR)
            come = max(max(m.now + 15 * US, m.free.get(7, 0)) for m in machines) + 2 * US
            for m in machines:
                m.python(8 * US)
                m.count += 1
                m.call("cudaLaunchKernel", 5 * US, m.count)
                begin = max(m.free.get(7, 0), m.now) + US
                end = max(begin, come) + 100 * US
                m.free[7] = end
                m.tables["kernels"].append(
                    x.kernel(begin, end, NCCL, pid=m.pid, device=m.device, correlation=m.count, stream=7)
                )
        for m in machines:
            m.launch(ADAM, 60 * US)
    first, *rest = machines
    return first.export(path, *rest, gpus=[x.gpu(number) for number in range(count)])
