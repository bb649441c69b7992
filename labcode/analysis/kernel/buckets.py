"""What a kernel is for, by its name: a name (and the ranges it was launched in) in, one of a few buckets out.

The table below is read from the top; the first pattern found in a name decides. What a GPU does at all is not
in a name alone: an addition of an optimizer's step is elementwise by name. Where the ranges around the launch
are known, they decide that (`bucket_of`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

BUCKETS = {
    "matmul": "products of matrices, and what adds up their parts",
    "convolution": "convolutions, however computed",
    "attention": "fused attention: scores, softmax and weighted values in one kernel",
    "softmax": "softmax and its logarithm, forward and backward",
    "normalization": "layer, batch and other normalizations, forward and backward",
    "elementwise": "arithmetic on single elements",
    "reduction": "sums, means, norms, scans, losses",
    "indexing": "picking, placing and sorting elements; embeddings",
    "optimizer": "the optimizer's step",
    "copy": "copies, fills, changes of dtype or layout",
    "communication": "between GPUs",
    "other": "nothing the table knows",
}


@dataclass(frozen=True)
class Rule:
    """Patterns of kernel names, and the bucket of a kernel in whose name one of them is found."""

    bucket: str
    patterns: tuple[str, ...]


# fmt: off
RULES = (
    Rule(
        "communication",
        (
            r"^nccl", r"ncclDevKernel", r"ncclKernel", r"nvshmem", r"all_?reduce_?kernel",
            r"multimem_all", r"cross_device_reduce",
            r"\b(?:inter|intra)node(?:_ll)?::",  # DeepEP's
        ),
    ),
    # kernels that torch.compile writes: their names list the operators in them
    Rule("matmul", (r"^triton_tem_", r"^triton_\w*_mm_", r"^cutlass_fused")),
    Rule("attention", (r"^triton_\w*(?:flex_attention|sdpa)",)),
    Rule("softmax", (r"^triton_\w*softmax",)),
    Rule("normalization", (r"^triton_\w*(?:layer_norm|rms_norm|batch_norm|group_norm)",)),
    Rule("optimizer", (r"^triton_for_",)),
    Rule("reduction", (r"^triton_(?:red|per|spl)_",)),
    Rule("indexing", (r"^triton_poi_\w*(?:embedding|index|gather|scatter)",)),
    Rule(
        "copy",
        (
            r"^triton_poi_fused(?:_(?:_to_copy|clone|t|transpose|_?(?:unsafe_)?view|permute|select|slice|expand"
            r"|unsqueeze|squeeze|cat))+_?\d+$",
        ),
    ),
    Rule("elementwise", (r"^triton_poi_",)),
    # fused attention before products and softmax, which it is made of
    Rule(
        "attention",
        (
            r"flash_(?:fwd|bwd)", r"pytorch_flash", r"\bflash::", r"[Ff]mha", r"sdpa",
            r"mem_eff_attention", r"attention_kernel", r"(?:paged|unified)_attention",
            r"(?:attn|sage)_(?:fwd|bwd)",
            r"compute_dot_do_o", r"convert_dq_to_16bits",  # beside cuDNN's backward pass
        ),
    ),
    Rule("softmax", (r"softmax", r"SoftMax")),
    Rule(
        "normalization",
        (
            r"[Ll]ayer_?norm", r"LayerNorm", r"[Rr]ms_?norm", r"RMSNorm", r"RowwiseMoments",
            r"GammaBeta", r"cuComputeGradInput",
        ),
    ),
    Rule(
        "normalization",
        (
            r"batch_?norm", r"BatchNorm", r"group_?norm", r"GroupNorm", r"\bcudnn::bn_",
            r"bn_(?:fw|bw)_",
        ),
    ),
    Rule(
        "copy",
        (
            r"nchwToNhwc", r"nhwcToNchw", r"nchw2nhwc", r"nhwc2nchw", r"tensorTransform",
            r"transposeReadWrite",
        ),
    ),
    Rule(
        "convolution",
        (
            r"implicit_gemm", r"winograd", r"fft2d", r"dgrad", r"wgrad", r"fprop", r"convolve",
            r"conv2d", r"depthwise", r"conv_depth", r"[hs]cudnn_\d", r"igemm_(?:fwd|bwd|wrw)",
            r"miopenSp3AsmConv", r"[Gg]rouped_?[Cc]onv", r"\bcask_cudnn", r"Im2d2Col",
        ),
    ),
    Rule(
        "convolution",
        (
            r"pointwise_mult_and_sum_complex", r"flip_filter", r"implicit_convolve",
            r"\bcudnn::cnn::",
        ),
    ),
    Rule("convolution", (r"scalePackedTensor_kernel", r"\bim2col", r"\bcol2im", r"vol2col")),
    Rule(
        "matmul",
        (
            r"gemm", r"nvjet", r"gemv", r"GEMM", r"Gemm", r"splitKreduce", r"split_k_reduce",
            r"cublasLt::epilogue", r"cublasLtEpilogue", r"cublasSplitK", r"_matmul_", r"^bmm_",
            r"^Cijk_",  # AMD's: rocBLAS and hipBLASLt name theirs by Tensile's indices
        ),
    ),
    Rule(
        "matmul",
        (
            r"cutlass(?:::|_)\w*Kernel", r"device_kernel<.*cutlass", r"\bdot_kernel",
            r"reduce_1Block_kernel", r"scal_kernel",
        ),
    ),
    Rule(
        "optimizer",
        (
            r"[Aa]dam", r"multi_tensor_apply_kernel(?!.*(?:LpNorm|L2Norm))", r"FusedSgd",
            r"FusedAdagrad", r"[Ll]amb_?\d",
        ),
    ),
    Rule(
        "reduction",
        (
            r"LpNormFunctor", r"lpnorm_cleanup", r"L2Norm", r"reduce_kernel", r"nll_loss",
            r"NLLLoss", r"cross_entropy",
        ),
    ),
    Rule(
        "reduction",
        (
            r"DeviceReduce", r"DeviceScan", r"DeviceSegmentedReduce", r"tensor_kernel_scan",
            r"scan_kernel", r"cumsum", r"cumprod",
        ),
    ),
    Rule(
        "indexing",
        (
            r"[Rr]adix_?[Ss]ort", r"DeviceSelect", r"DeviceCompact", r"DeviceUniqueByKey",
            r"sort_?[Kk]ernel", r"bitonic", r"[Tt]op[Kk]",
        ),
    ),
    Rule(
        "indexing",
        (
            r"index_elementwise", r"gather", r"scatter", r"[Ee]mbedding", r"indexing_backward",
            r"index_(?:put|select|fill|add)",
        ),
    ),
    Rule(
        "indexing",
        (
            r"indexSelect", r"compute_grad_weight", r"partial_?segment", r"partials_per_segment",
            r"write_indices", r"unfold_backward", r"reshape_and_cache", r"store_kvcache",
        ),
    ),
    Rule("indexing", (r"flip_kernel_impl", r"roll_cuda_kernel", r"masked_select", r"MaskedSelect")),
    Rule(
        "copy",
        (
            r"direct_copy_kernel", r"copy_kernel_cuda", r"CatArray", r"FillFunctor", r"memcpy",
            r"memset", r"[Mm]emcpy", r"[Mm]emset",
        ),
    ),
    Rule(
        "copy",
        (
            r"CUDAFunctorOnSelf_fill", r"cast_kernel", r"transpose_kernel", r"permute_kernel",
            r"batched_transpose", r"cast_and_transpose",
        ),
    ),
    Rule(
        "elementwise",
        (
            r"elementwise_kernel", r"pointwise", r"Pointwise", r"dropout", r"distribution_",
            r"curand", r"philox", r"triu_tril",
        ),
    ),
    Rule(
        "elementwise",
        (
            r"arange_cuda", r"masked_fill", r"where_kernel", r"gelu", r"relu", r"act_and_mul",
            r"kernelPointwiseApply",
        ),
    ),
)
# fmt: on
_COMPILED = tuple((rule.bucket, re.compile("|".join(rule.patterns))) for rule in RULES)
_OF_A_STEP = frozenset({"elementwise", "reduction", "indexing", "copy", "other"})
_COPIES = {"memcpy": "copy", "memset": "copy"}


@lru_cache(maxsize=65536)
def bucket_of_name(name: str) -> str:
    """The bucket of a kernel by its name alone; ``other`` for one that no rule knows."""
    for bucket, pattern in _COMPILED:
        if pattern.search(name):
            return bucket
    return "other"


def bucket_of(name: str, path: str = "", kind: str = "kernel") -> str:
    """The bucket of a GPU operation.

    ``path`` are the names of the ranges around its launch, outermost first, joined by slashes; inside of a
    range called ``optimizer`` (or an optimizer's own, ``Optimizer.step#…``) plain arithmetic is the
    optimizer's. ``kind`` is ``kernel``, ``memcpy`` or ``memset``; the latter two are copies.
    """
    bucket = _COPIES.get(kind) or bucket_of_name(name)
    if bucket in _OF_A_STEP and kind == "kernel" and any(in_optimizer(part) for part in path.split("/")):
        return "optimizer"
    return bucket


def in_optimizer(name: str) -> bool:
    """Whether a range of this name is an optimizer's: ``optimizer``, or the one that PyTorch opens itself."""
    return name == "optimizer" or name.startswith("Optimizer.step")
