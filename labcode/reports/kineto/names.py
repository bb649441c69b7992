"""Names as Kineto writes them in, their parts out."""

import re

_COPY = re.compile(r"Memcpy ([A-Z])to([A-Z]) \((\w+) -> (\w+)\)")
_MEMSET = re.compile(r"Memset \((\w+)\)")
_CUTLASS = re.compile(r"(?:void )?cutlass::\w*Kernel2?<(\w+)>\(")
_THREAD = re.compile(r"thread -?\d+ \((.*)\)")
_BRACKET = re.compile(r"[<>(]")
_IDENTIFIER = re.compile(r"[A-Za-z_~][\w$]*")


def short_name(name: str) -> str:
    """A kernel's function without namespaces, template arguments, parameters and return type.

    ``void at::native::vectorized_elementwise_kernel<4, …>(int, …)`` becomes
    ``vectorized_elementwise_kernel``; of CUTLASS' one function for all products, its argument. Names that are
    no C++ signature stay as they are.
    """
    cutlass = _CUTLASS.match(name)
    if cutlass:
        return cutlass[1]
    text = name.replace("(anonymous namespace)", "anonymous")
    depth, kept, begun = 0, [], 0  # begun: where what is kept next begins
    for found in _BRACKET.finditer(text):
        place, mark = found.start(), found[0]
        if depth == 0 and mark != ">":
            kept.append(text[begun:place])
            begun = len(text)
            if mark == "(":
                break
        if mark == "<":
            depth += 1
        elif mark == ">" and depth:
            depth -= text[place - 1] != "-"
            begun = len(text) if depth else place + 1
    bare = "".join([*kept, text[begun:]]).strip()
    last = bare.split("::")[-1].split(" ")[-1] if "::" in bare or bare.startswith("void ") else bare
    return last if _IDENTIFIER.fullmatch(last) else name


def copy_kinds(name: str) -> tuple[str, str, str]:
    """``Memcpy HtoD (Pageable -> Device)`` → 'H2D', 'pageable', 'device'."""
    found = _COPY.match(name)
    if not found:
        return "unknown", "unknown", "unknown"
    return f"{found[1]}2{found[2]}", found[3].lower(), found[4].lower()


def memset_kind(name: str) -> str:
    """``Memset (Device)`` → 'device'."""
    found = _MEMSET.match(name)
    return found[1].lower() if found else "unknown"


def thread_name(text: str) -> str:
    """``thread 4300 (pt_autograd_0)`` → ``pt_autograd_0``; other names in one line as they are."""
    text = " ".join(text.split())
    found = _THREAD.fullmatch(text)
    return found[1] if found else text
