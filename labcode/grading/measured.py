"""What an answer that is measured on a GPU may not use: its text in, why it is refused out.

Such an answer runs in the process that measures it, and could write the record itself. So it may compute,
allocate and launch, but neither end the process, nor open files, nor reach for what measures it.
"""

import ast
import re
from pathlib import Path

_INCLUDES = re.compile(
    r"cuda[\w/]*(?:\.\w+)?|cooperative_groups[\w/]*(?:\.h)?|cub/[\w/]+\.cuh|mma\.h|nvtx3/[\w.]+|c?(?:math|float|"
    r"stdint|stddef|limits|assert|string|stdio)(?:\.h)?|algorithm|array|bit|concepts|iterator|limits|memory|"
    r"numeric|optional|span|tuple|type_traits|utility|vector|map|unordered_map|functional|initializer_list"
)
_OWN_INCLUDES = re.compile(r"(?:\.\./\.\./\.\./cuda/common/)?(?:check|oscillator)\.cuh")
_OWN_NAMES = {"oscillator_step"}  # of namespace lab
_DIRECTIVES = {
    "if",
    "ifdef",
    "ifndef",
    "elif",
    "else",
    "endif",
    "undef",
    "define",
    "pragma",
    "include",
    "error",
}
_DENIED = re.compile(
    r"\b(?:_*exit|_Exit|quick_exit|atexit|at_quick_exit|set_terminate|set_new_handler|sigaction|exec[lv]\w*|"
    r"posix_spawnp?|popen|dlopen|dlsym|dl_iterate_phdr|syscall|f(?:open|dopen|reopen|read|write|puts|putc|gets)\w*|"
    r"freopen|getchar|v?f?scanf|getline|stdin|w?[io]?fstream|filesystem|mmap|mprotect|ptrace|process_vm_\w+|"
    r"getenv|setenv|environ|pthread_\w+|constructor|destructor|init_priority|ifunc|LEARNERS_FILE|"
    r"__attribute__|__has_include|_Pragma|incbin|unistd|grading|elapsed_us|host_us)\b"
    r"|\bstd\s*::\s*(?:j?thread|async|terminate|abort|raise|signal|system|cin)\b"
)
# Words that are good names, too: denied where they are called, or where their address is taken.
_FUNCTIONS = (
    "abort|terminate|raise|signal|kill|v?fork|clone3?|system|open|openat|creat|p?readv?|p?writev?|socket|connect|"
    "send|sendto|main|alternate"
)
_CALLED = re.compile(rf"(?:&\s*|::\s*)(?:{_FUNCTIONS})\b|\b(?:{_FUNCTIONS})\s*\(")
_MODULES = {
    "__future__",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "enum",
    "functools",
    "heapq",
    "itertools",
    "labcode",
    "math",
    "numpy",
    "nvtx",
    "operator",
    "queue",
    "random",
    "string",
    "threading",
    "time",
    "torch",
    "triton",
    "typing",
}
_CALLS = {
    "exec",
    "eval",
    "compile",
    "open",
    "__import__",
    "setattr",
    "delattr",
    "globals",
    "vars",
    "breakpoint",
}
_PARTS = {
    "os",
    "sys",
    "subprocess",
    "ctypes",
    "inspect",
    "gc",
    "importlib",
    "builtins",
    "modules",
    "_exit",
    "abort",
    "f_back",
    "f_locals",
    "f_globals",
    "tb_frame",
    "gi_frame",
    "cr_frame",
    "load",
    "save",
    "cpp_extension",
    "io",
    "pathlib",
    "shutil",
    "socket",
    "multiprocessing",
    "fromfile",
    "tofile",
    "memmap",
    "from_file",
    "settrace",
}
_PLAIN_DUNDERS = {"__init__", "__name__", "__class__", "__len__", "__getitem__", "__enter__", "__exit__"}


def refused(file: Path) -> str:
    """Why a file is not measured; empty where it is."""
    text = file.read_text(encoding="utf-8", errors="replace")
    return _of_cuda(text) if file.suffix == ".cu" else _of_python(text)


def _of_cuda(text: str) -> str:
    if "??" in text or "\\u" in text.lower() or "%:" in text:
        return "digraphs, trigraphs and named characters are not measured: write plain C++"
    spliced = re.sub(r"\\[ \t]*\r?\n", "", text)
    if 'R"' in spliced:
        return "raw strings are not measured: write plain ones"
    code = _without_comments(spliced)
    for line in code.splitlines():
        directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        if directive is None:
            if re.match(r"\s*#\s*\S", line):
                return f"{line.strip()}: write it without this directive"
            continue
        name, rest = directive.groups()
        if name not in _DIRECTIVES:
            return f"#{name}: write it without this directive"
        if name == "include":
            own = re.match(r'"([^"]+)"', rest)
            system = re.match(r"<([^>]+)>", rest)
            fine = (own and _OWN_INCLUDES.fullmatch(own[1])) or (system and _INCLUDES.fullmatch(system[1]))
            if not fine:
                return f"#include {rest.strip()}: a measured answer does without it"
        if name == "define" and ("##" in rest or not re.match(r"(?!LAB_)[A-Z][A-Z0-9_]+\b", rest)):
            return f"#define {rest.strip()}: name macros in capitals, and paste no names together"
        if name == "undef" and not re.match(r"(?!LAB_)[A-Z][A-Z0-9_]+\b", rest):
            return f"#undef {rest.strip()}: leave it as it is"
    if found := _DENIED.search(code) or _CALLED.search(code):
        return f"{found.group().strip(' (')}: a measured answer does without it"
    if re.search(r"\b(?:asm|__asm__|__asm)\b[^;]*\b(?:syscall|int\s+\$|svc|call|jmp|include)\b", code):
        return "asm: PTX alone is measured"
    for name in re.findall(r"\blab\b(?:\s*::\s*(\w+))?", code):
        if name not in _OWN_NAMES:
            return f"lab::{name}: this belongs to what measures you"
    return ""


def _without_comments(text: str) -> str:
    """C++ without comments; strings stay, for what lies in them may be assembled."""
    pattern = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
    return pattern.sub(lambda found: found[0] if found[0][0] in "\"'" else " ", text)


def _of_python(text: str) -> str:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ""  # loading the file says what is wrong with it
    imported = set[str]()
    for node in ast.walk(tree):
        where = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            names = [module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
            for name in names:
                if name.split(".")[0] not in _MODULES or name.startswith("labcode.grading"):
                    return f"{where} imports {name}: a measured answer does without it"
            for alias in node.names:
                if alias.name.split(".")[-1] in _PARTS or alias.name == "*":
                    return f"{where} imports {alias.name}: a measured answer does without it"
                imported.add(alias.asname or alias.name.split(".")[0])
    for node in ast.walk(tree):
        where = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Name) and (node.id in _CALLS or node.id == "__builtins__"):
            return f"{where} uses {node.id}: a measured answer does without it"
        if isinstance(node, ast.Attribute):
            hidden = node.attr.startswith("__") and node.attr not in _PLAIN_DUNDERS
            if hidden or node.attr in _PARTS:
                return f"{where} uses {node.attr}: a measured answer does without it"
            if isinstance(node.ctx, ast.Store | ast.Del) and _root(node) in imported:
                return f"{where} changes {ast.unparse(node)}: leave what measures you as it is"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in _PARTS - {"load"}:
            return f"{where} names {node.value!r}: a measured answer does without it"
    return ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
