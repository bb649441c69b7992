"""The attention programs of older guides: their flags in, the commands of `labcode.workloads.attention` out.

python -m labcode.workloads.older.benchmark_attention --seq-lengths 128,256,512 --output results.json
python -m labcode.workloads.older.profile_kernels --seq-len 512 --impl flash
python -m labcode.workloads.older.visualize_results --input results.json --output-dir plots/
"""

from collections.abc import Callable, Sequence

from labcode.experiments.compute.attention import program as attention

FLAGS = {
    "benchmark": {"--seq-lengths": "--lengths", "--seq-len": "--lengths", "--output": "--json"},
    "profile": {"--seq-len": "--length", "--impl": "--implementation", "--output": "--trace"},
    "visualize": {},
}


def translated(command: str, arguments: Sequence[str]) -> list[str]:
    """The command line of `labcode.workloads.attention`; flags that it has itself stay as they are."""
    result = [command]
    for word in arguments:
        flag, equals, value = word.partition("=")
        result.append(FLAGS[command].get(flag, flag) + equals + value)
    return result


def main_of(command: str) -> Callable[[Sequence[str]], int]:
    """The ``main`` of a program that is this command."""
    return lambda arguments: attention.main(translated(command, arguments))
