"""The house rules of prose: the text of a page in, findings with their lines out.

Measurements are never typed by hand: a number with a unit stands in prose only as ``{glue:text}``, in a
claim, or marked as published by ``{spec}``. Spelling is American, idiom the field's, and a sentence ends
before a reader has lost its beginning.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

_NUMBER = r"(?<![\w.,/-])(?:[~≈<>≤≥]\s?|[+−-])?\d[\d.,  ]*(?:\s?[×x]\s?10\^?[\d⁰¹²³⁴-⁹]+)?"
_SPACE = r"[  \s-]?"
_UNITS = (
    r"(?:ns|µs|μs|us|usec|ms|msec|s|sec|min|h|nanoseconds?|microseconds?|milliseconds?|seconds?|minutes?|hours?"
    r"|[kKMGT]?B/s|[KMGT]iB/s|bytes/s|[kMGTP]?FLOPS?|[kMGTP]?FLOP/s|[kMGT]bit/s|Gbps|GT/s"
    r"|[kKMGT]B|[KMGT]iB|bytes?|kilobytes?|megabytes?|gigabytes?|terabytes?"
    r"|W|kW|mW|watts?|J|kJ|mJ|joules?|Wh|kWh|°C"
    r"|[kMG]?Hz|cycles?"
    r"|%|percent|per cent|percentage points?"
    r"|(?:×|x)(?!\s?\d)|-?fold"
    r"|times (?:faster|slower|fewer|more|less|as|the|shorter|longer|smaller|larger|higher|lower))"
)
_DECADE = r"(?!(?:19|20)\d0s\b)"
_MEASUREMENT = re.compile(rf"{_DECADE}{_NUMBER}{_SPACE}{_UNITS}(?![\w/])")

_FENCE = re.compile(r"^(?P<indent>\s*)(?P<mark>`{3,}|~{3,}|:{3,})\s*(?P<info>.*)$")
_DIRECTIVE = re.compile(r"^\{(?P<name>[^}]+)\}")
_SPEC_CLASS = re.compile(r"^\s*:class:.*\bspec-table\b")
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_ROLE = re.compile(r"\{[\w:.+-]+\}(`+)(?:.+?)\1", re.DOTALL)
_CODE = re.compile(r"(`+)(?!`)(?:.+?)(?<!`)\1(?!`)", re.DOTALL)
_LINK_TARGET = re.compile(r"\]\([^)\n]*\)|<https?://[^>\s]*>|https?://\S+")
_QUOTATION = re.compile(r"“[^”]*”")
_COMMENT = re.compile(r"^%.*$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_MATH = re.compile(r"\$\$.+?\$\$|(?<![\\\w$])\$(?!\s)[^$\n]+?(?<!\s)\$(?!\d)", re.DOTALL)
_SPEC_ATTRIBUTE = re.compile(r"^\s*\{[^}\n]*\.spec-table\b[^}\n]*\}\s*$")
_ATTRIBUTES = re.compile(r"^\s*\{[.#][^}\n]*\}\s*$", re.MULTILINE)
_QUOTE_LINE = re.compile(r"^\s*>.*$", re.MULTILINE)
_OPTION_LINE = re.compile(r"^\s*:[\w-]+:.*$", re.MULTILINE)
_CODE_DIRECTIVES = frozenset(
    {
        "code-cell",
        "code-block",
        "code",
        "sourcecode",
        "literalinclude",
        "math",
        "eval-rst",
        "raw",
        "bibliography",
        "toctree",
    }
)
_QUOTE_DIRECTIVES = frozenset({"epigraph", "pull-quote", "highlights"})

_BRITISH = re.compile(
    r"\b(?:(?:colour|behaviour|favour|neighbour|labour|honour|flavour|rumour|vapour|endeavour)\w*"
    r"|(?:optimis|organis|realis|recognis|synchronis|serialis|parallelis|vectoris|normalis|minimis|maximis|summaris|visualis"
    r"|initialis|utilis|specialis|generalis|emphasis(?=e|i)|categoris|characteris|customis|prioritis|quantis|randomis|standardis"
    r"|tokenis|virtualis|memoris|penalis|localis|finalis|equalis|stabilis|apologis|criticis|containeris|linearis|discretis)"
    r"(?:e|ed|es|er|ers|ing|ation|ations|able)"
    r"|(?:analys|catalys|paralys)(?:e|ed|er|ers|ing)"
    r"|(?:centre|fibre|litre|metre|kilometre|millimetre)s?|centred"
    r"|(?:licence|defence|offence|pretence)s?|grey\w*|programmes?|artefacts?|whilst|amongst|learnt|spelt|burnt"
    r"|(?:label|cancel|model|travel|signal|channel|tunnel|level|marshal|fuel|pencil|dial|total|initial|equal)l(?:ed|ing|er|ers)"
    r"|ageing|sceptic\w*|aluminium|fulfils?|enrols?|skilful|maths)\b",
    re.IGNORECASE,
)

_COUNTED = (
    r"(?:bits|bytes|FLOPs?|joules|sectors|launch(?:es)?|registers|warps?|blocks?|threads?|kernels?|tokens"
    r"|words)"
)
_PER = (
    r"(?:bit|byte|element|parameter|token|row|warp|thread|launch|step|request|layer|block|tap|SM|GPU|image"
    r"|sequence|second)"
)
_IDIOM = re.compile(
    rf"\b{_COUNTED} an? {_PER}\b|^#+ .*\bagainst\b"
    r"|\b(?:said of|goes round|go round|is no matter|belongs into|[Ss]omething else than|can none of them)\b",
    re.MULTILINE,
)
_MOST_WORDS = 35  # of a sentence; roles, code and formulas count nothing
_SENTENCE_END = re.compile(
    r"(?<=[.!?])[)”’*_\"]*\s+|[ \t]\|[ \t]|\n[ \t]*\n\s*|\n(?=[ \t]*(?:[-*] |\d+\. |: |[|#+]|`{3}|:{3}))"
)


@dataclass(frozen=True)
class Finding:
    """Something that breaks a rule: the line (from 1) and what stands there."""

    line: int
    text: str


def measurements(page: str) -> list[Finding]:
    """Numbers with units typed by hand in the prose of a MyST page.

    Left out: front matter, code (cells, blocks, spans), roles, formulas, comments, quotations, link targets,
    and tables whose class is ``spec-table``.
    """
    prose = prose_of(page)
    return [
        Finding(_line(prose, match.start()), match.group().strip()) for match in _MEASUREMENT.finditer(prose)
    ]


def british_spellings(page: str) -> list[Finding]:
    """Common British forms in the prose of a page."""
    prose = prose_of(page)
    return [Finding(_line(prose, match.start()), match.group()) for match in _BRITISH.finditer(prose)]


def foreign_idiom(page: str) -> list[Finding]:
    """Turns of phrase that are not the field's: “bytes a row” for “bytes per row”, “against” in a heading."""
    prose = prose_of(page)
    return [Finding(_line(prose, match.start()), match.group()) for match in _IDIOM.finditer(prose)]


def long_sentences(page: str) -> list[Finding]:
    """Sentences of more words than a reader holds, each by its beginning."""
    prose, found, start = prose_of(page), [], 0
    for end in (*(match.end() for match in _SENTENCE_END.finditer(prose)), len(prose)):
        words = [word for word in prose[start:end].split() if re.search(r"\w", word)]
        if len(words) > _MOST_WORDS:
            begins = start + re.search(r"\S", prose[start:]).start()  # type: ignore[union-attr]
            found.append(Finding(_line(prose, begins), f"{len(words)} words: {' '.join(words[:8])} …"))
        start = end
    return found


def shell_escapes(page: str) -> list[Finding]:
    """Lines of code cells that begin with ``!`` or ``%`` or a cell magic: a failing command there never fails
    a build.
    """
    return [
        Finding(number, line.strip())
        for number, line, name in _fenced_lines(page)
        if name == "code-cell" and re.match(r"\s*(?:!|%)", line)
    ]


def long_commands(page: str) -> list[Finding]:
    """Lines of shell blocks that a page 1280 px wide cuts off: 94 characters of code fit into a line."""
    return [
        Finding(_line(page, block.start("lines")) + number, line)
        for block in re.finditer(r"^( *)(`{3,})shell\n(?P<lines>.*?)^\1\2$", page, re.DOTALL | re.MULTILINE)
        for number, line in enumerate(block["lines"].split("\n"))
        if len(line) > 94
    ]


def figures_without_alt(page: str) -> list[Finding]:
    """Images and figures of a page that say nothing to those who do not see them, and figures shown past
    `book.figure`.
    """
    found = []
    for match in re.finditer(r"!\[(?P<alt>[^\]]*)\]\(", page):
        if not match["alt"].strip():
            found.append(Finding(_line(page, match.start()), "image without a description"))
    lines = page.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"^\s*(?:`{3,}|:{3,})\{(?:figure|image)\}", line):
            options = itertools.takewhile(lambda option: option.lstrip().startswith(":"), lines[number + 1 :])
            if not any(re.match(r"\s*:alt:\s*\S", option) for option in options):
                found.append(Finding(number + 1, "figure without :alt:"))
    for number, line, name in _fenced_lines(page):
        if name == "code-cell" and re.search(r"\bplt\.show\(|\bdisplay\(.*(?:fig|Image)", line):
            found.append(Finding(number, "figure shown without book.figure(…, alt=…)"))
    return found


def prose_of(page: str) -> str:
    """A page with everything that is not prose replaced by blanks; every character keeps its line."""
    text = _FRONT_MATTER.sub(_blank, page)
    lines = text.splitlines()
    for number in _not_prose(lines):
        lines[number] = ""
    text = "\n".join(lines)
    for pattern in (
        _COMMENT,
        _ROLE,
        _CODE,
        _MATH,
        _QUOTATION,
        _LINK_TARGET,
        _ATTRIBUTES,
        _QUOTE_LINE,
        _OPTION_LINE,
    ):
        text = pattern.sub(_blank, text)
    return text


def _not_prose(lines: list[str]) -> Iterator[int]:
    """Numbers (from 0) of the lines in code blocks, quotations and tables of specifications, and of the
    fences.
    """
    stack: list[tuple[str, bool]] = []
    specification = False  # inside a table below a line `{.spec-table}`
    for number, line in enumerate(lines):
        specification = bool(line.strip()) and (specification or _SPEC_ATTRIBUTE.match(line) is not None)
        if specification:
            yield number
            continue
        match = _FENCE.match(line)
        hidden = any(skip for _, skip in stack)
        if match is None:
            if hidden:
                yield number
            continue
        mark, info = match["mark"], match["info"].strip()
        if stack and not info and mark[0] == stack[-1][0][0] and len(mark) >= len(stack[-1][0]):
            stack.pop()
            yield number
        elif hidden:
            yield number
        else:
            name = _DIRECTIVE.match(info)
            skip = _is_code(name["name"] if name else None, mark) or _is_specification(lines, number)
            stack.append((mark, skip))
            if skip or name is None:
                yield number


def _is_code(name: str | None, mark: str) -> bool:
    if name is None:
        return not mark.startswith(":")
    return name in _CODE_DIRECTIVES or name in _QUOTE_DIRECTIVES


def _is_specification(lines: list[str], fence: int) -> bool:
    """Whether the options right below a fence give the class ``spec-table``."""
    for line in lines[fence + 1 : fence + 8]:
        if not line.lstrip().startswith(":"):
            return False
        if _SPEC_CLASS.match(line):
            return True
    return False


def _fenced_lines(page: str) -> Iterator[tuple[int, str, str]]:
    """Line number (from 1), text and directive name of every line inside a fenced directive or code block."""
    stack: list[tuple[str, str]] = []
    for number, line in enumerate(page.splitlines(), start=1):
        match = _FENCE.match(line)
        if (
            match
            and stack
            and not match["info"].strip()
            and match["mark"][0] == stack[-1][0][0]
            and len(match["mark"]) >= len(stack[-1][0])
        ):
            stack.pop()
        elif match and not (stack and stack[-1][1] in _CODE_DIRECTIVES):
            name = _DIRECTIVE.match(match["info"].strip())
            stack.append((match["mark"], name["name"] if name else "code"))
        elif stack:
            yield number, line, stack[-1][1]


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
