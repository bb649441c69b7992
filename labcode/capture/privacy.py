"""What must not be published: texts in; what is private in them, or the same texts in neutral words, out.

The one place of patterns: `find` and `reduce` use the same rules, so what was reduced is never found again.
Every rule reads a text from the beginnings of its tokens on, in time that grows with the text's length.

Some things look alike. Four numbers with dots are an address, unless one is above 255, they mean this very
machine (``127.…``), or what stands before them says version: a word such as ``version`` or ``cuda``, a
letter, ``==``, or a dot or ``-`` as in ``libcublas.so.12.9.1.4``. With a port or a mask they are an address
always. ``f@GLIBC_2.17`` is a version of a symbol, ``x & ~mask`` and ``T::~T()`` are C++, addresses of the web
are public. What cannot be told is for people to look at: `review`.
"""

import getpass
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from labcode.errors import InputError

Names = tuple[str, ...]
Neutral = Callable[[re.Match[str]], str | None]  # a match in neutral words; None: harmless
ADDRESS, DEVICE, REMOVED, NAME = "[address]", "[device]", "[removed]", "[name]"
MOST_NAMES = 500  # SQLite takes conditions of up to 1,000 parts
FIRST_PID = 100_000  # of neutral numbers of processes: far from those of GPUs, which traces have as processes
_LONGEST_PATH = 4096
_CHUNK = 1 << 16


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLAIN = r"[^\s/\\\"'`<>|:;,\0]"
_SLASH = r"(?:\\{0,4}/)+"
_MORE = rf"(?:(?<!\.\w)(?<!\.\w\w)(?<!\.\w\w\w)(?<!\.\w\w\w\w) [^\W_]{_PLAIN}*+){{0,3}}"  # words after spaces
_PARTS = rf"(?:(?:(?:{_PLAIN}|\\ )++{_MORE}{_SLASH})*(?:{_PLAIN}|\\ )*+)"
_BACK_PARTS = rf"(?:(?:{_PLAIN}++{_MORE}(?:\\+|/))*{_PLAIN}*+)"
_PATH = re.compile(
    rf"(?P<url>(?<![\w+.\-])[A-Za-z][A-Za-z0-9+.\-]++:\\{{0,4}}/\\{{0,4}}/[^\s\"'<>]*+)"
    rf"|(?P<drive>(?<!\w)[A-Za-z]:(?:\\+|/){_BACK_PARTS})"
    rf"|(?P<unc>(?<![\\\w])\\{{2,8}}[A-Za-z0-9][\w.\-]++\\+(?!\\){_BACK_PARTS})"
    rf"|(?P<far>(?<![\w.\-@/\\~])[A-Za-z0-9][\w.\-]*+:(?={_SLASH}\w){_SLASH}{_PARTS})"
    rf"|(?P<home>(?<![\w)\]~/.])(?:(?=~[\w.\-]++[\\/])|(?<![&|^!(*+])(?<![&|=^!(<>*+,\-] ))"
    rf"~[A-Za-z_][\w.\-]*+(?!\()(?:{_SLASH}{_PARTS})?)"
    rf"|(?P<near>(?:(?<![\w/.\-\\~])|(?<=\\[nrt]))~?{_SLASH}{_PARTS})"
)
_FILE_SCHEMES = _words("file nfs smb cifs ssh sftp ftp rsync git+ssh s3 gs gcs hdfs abfs abfss dbfs")
_PEOPLE = _words("home homes Users users people")  # their folders are called like people
_ROOTS = _words(
    "home homes Users root mnt media data scratch work workspace tmp opt usr var etc lustre gpfs "
    "nfs srv export project projects private Volumes proc sys dev run"
)
_WHOLE_PATH = re.compile(r"/(?:[^/\0]+/)*[^/\0:;,=]+/?")
_KNOWN_PLACES = (
    re.compile(r"/((?:site|dist)-packages/)"),
    re.compile(r"/(labcode/(?:[a-z_]+/)*[a-z_]+\.py)$"),
    re.compile(r"/(lib/python\d+\.\d+/)"),
)
_VERSION = re.compile(
    r"(?:\b(?:version|ver|release|rev|build|v|cuda|cu(?:blas|dnn|fft|pti|sparse|solver|rand)(?:lt)?|nccl|driver"
    r"|toolkit|nsys|ncu|nsight \w+|nvcc|torch|python|gcc|glibc|schema)(?:_version)?[\"']?[ :=]{0,3}[\"']?v?"
    r"|[=~<>]= ?|[a-z])$",
    re.IGNORECASE,
)
_QUOTE = r"\\{0,4}[\"']"
_VARIABLE = (
    r"(?:PATH|HOME|USER|LOGNAME|HOSTNAME|HOST|PWD|OLDPWD|SHELL|MAIL|LANG|PYTHONPATH|LD_LIBRARY_PATH|LD_PRELOAD"
    r"|VIRTUAL_ENV|MASTER_ADDR|TMPDIR|USERNAME|USERPROFILE|COMPUTERNAME|SUDO_USER|KUBECONFIG|CUDA_HOME|CUDA_PATH"
    r"|(?:SLURM|SSH|AWS|AZURE|GOOGLE|KUBERNETES|XDG|CONDA|HF|WANDB|PBS|LSB)_[A-Z0-9_]+"
    r"|[A-Z0-9_]*?(?:TOKEN|SECRET|PASSWORD|PASSWD|API_KEY|ACCESS_KEY|CREDENTIALS|_HOST|_NODE|_NODELIST))"
)
_STATES = r"(?i:(?:host|node|user|log|login|computer)_?name|fqdn|user|login|export_(?:host|user))"
_NOBODY = frozenset(("", "null", "none", "unknown", "localhost", "true", "false", "[address]"))
_COMMON = _words(
    "localhost ubuntu debian linux host nvidia workstation server root user users runner admin data test "
    "work python torch home node none null true false default worker jovyan shared public local build cuda "
    "main train model nobody daemon project projects unknown guest space temp runs code"
)
_STATING = re.compile(r"[=/\\]|[\"'] ?:")  # one of which is in what the next one finds
_STATED = re.compile(
    rf"(?<![A-Za-z0-9_])(?:(?:{_STATES}|HOST)(?:{_QUOTE} ?: ?|=)(?:{_QUOTE})?"
    r"|\\{0,4}/(?:home|Users)\\{0,4}/|\\Users\\{1,4})(?P<name>[A-Za-z][\w.\-]{1,62}[A-Za-z0-9])"
)


class Rule(NamedTuple):
    """What a find is called, the characters of which a text must have one, the pattern, its neutral words."""

    what: str
    marks: re.Pattern[str]
    pattern: re.Pattern[str]
    neutral: Neutral


def _path(match: re.Match[str]) -> str | None:
    """A path's last part, ``~`` for a person's folder; None for what only looks like a path."""
    text, kind = match.group(), match.lastgroup
    if kind == "url":
        if text.partition(":")[0].lower() not in _FILE_SCHEMES:
            return None
        text = text.partition(":")[2]
    elif kind == "far":
        text = text.partition(":")[2]
    elif kind == "drive":
        text = text[2:]
    parts = [part for part in re.split(r"[/\\]+", text.replace("\\ ", " ")) if part]
    if not parts or not re.match(r"[\w.~@\-]", parts[0]):
        return None
    person = parts[0] if parts[0].startswith("~") or parts[0] in ("home", "Users", "root") else ""
    if len(parts) == 1:
        ends = text.endswith("/") and len(text) > 2 and kind == "near"
        return "~" if person else parts[0] if kind in ("url", "unc", "drive") or ends else None
    before = match.string[max(0, match.start() - 1) : match.start()] if kind == "near" else ""
    if before in (")", "]", "*") and parts[0] not in _ROOTS:  # (a)/b/c
        return None
    return "~" if parts[-2] in _PEOPLE else parts[-1].lstrip("~") or "~"


def _address(match: re.Match[str]) -> str | None:
    numbers = match[1].split(".")
    if any(int(n) > 255 or (n[0] == "0" and n != "0") for n in numbers):
        return None
    if numbers[0] == "127" or numbers in (["0"] * 4, ["255"] * 4):
        return None
    before = match.string[max(0, match.start() - 32) : match.start()].rpartition("\n")[2]
    version = _VERSION.search(before) or (before.endswith("-") and numbers[0] not in ("10", "172", "192"))
    return None if version and not match[2] else ADDRESS


def _variable(match: re.Match[str]) -> str | None:
    value = match["quoted"] or match["bare"]
    if value.startswith(REMOVED) or value.lower() in _NOBODY:
        return None
    return f"{match['head']}{match['q'] or ''}{REMOVED}"


def _bus(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - 12) : match.start()].lower()
    named = re.search(r"(?:pci|bus|gpu|device|bdf)[\w ]{0,8}[\"']?[ :=]{0,2}[\"']?$", before)
    return DEVICE if match["domain"] or named else None


def _rule(what: str, marks: str, pattern: str | re.Pattern[str], neutral: Neutral | str) -> Rule:
    return Rule(
        what,
        re.compile(f"[{re.escape(marks)}]" if marks else ""),
        re.compile(pattern),
        (lambda _: neutral) if isinstance(neutral, str) else neutral,
    )


# what is repeated possessively does not look around: CPython 3.11.2 takes what it looked at, too
_RULES = (
    _rule(
        "an environment variable",
        "=:",
        rf"(?<![A-Za-z0-9_])(?P<head>{_VARIABLE}(?:{_QUOTE} ?[=:]|=) ?|{_STATES}{_QUOTE} ?: ?)"
        rf"(?:(?P<q>{_QUOTE})(?P<quoted>(?>(?:(?!(?P=q))[^\n]){{1,65536}}))|(?P<bare>[^\s=\"',;\\\[\]{{}}()<>][^\s\"',;\\]*))",
        _variable,
    ),
    _rule(
        "a working directory",
        "wW",
        rf"(?<![A-Za-z0-9_])(?P<head>(?i:cwd|pwd|work(?:ing)?[_\-]?dir(?:ectory)?)(?:{_QUOTE})?"
        r"(?>\s*+(?:[=\-]>|[:=])\s*+|\s++is\s++|\s++))"
        rf"(?:(?P<q>{_QUOTE})(?P<quoted>(?>(?:(?!(?P=q))[^\n]){{1,65536}}))|(?P<bare>[\w.~/\-][^\s\"',;\\]*))",
        _variable,
    ),
    _rule(
        "a token",
        "_-A",
        r"(?<![A-Za-z0-9])(?:hf_|gh[opsu]_|github_pat_|glpat-|sk-|xox[bp]-|AKIA)[A-Za-z0-9_\-]{16,}",
        REMOVED,
    ),
    _rule(
        "an e-mail address",
        "@",
        r"(?<![A-Za-z0-9._+\-])[A-Za-z0-9][A-Za-z0-9._+\-]*+@(?!lib\w*\.so)[A-Za-z0-9\-]{2,}"
        r"(?:\.[A-Za-z0-9\-]{2,})*\.[a-z]{2,6}(?!\w|\.\w)",
        ADDRESS,
    ),
    _rule(
        "a user at a host",
        "@",
        r"(?<![A-Za-z0-9._+\-@])[A-Za-z_][A-Za-z0-9._+\-]*+(?::[^\s@/\"']{1,64}+)?"
        r"@(?!(?:plt|got)\b|lib\w*\.so|(?:source|url|section):|[A-Za-z0-9.\-]*\.[a-z]{2,6}(?!\w|\.\w))[a-z0-9](?>(?:[a-z0-9\-]|\.(?=[a-z0-9]))+)(?![\w@(])",
        ADDRESS,
    ),
    _rule("an absolute path", "/\\~", _PATH, _path),
    _rule(
        "a network address",
        ".",
        r"(?<![\d.])(?<!\w\.)(\d{1,3}(?:\.\d{1,3}){3})(:\d{2,5}\b|/\d{1,2}\b)?(?!\w|\.\w)",
        _address,
    ),
    _rule(
        "a network address",
        ":",
        r"(?i)(?<![\w:])(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}"
        r"|(?:fe80|f[cd](?:\d[0-9a-f]|[a-f]\d)|2[0-9a-f]{3})(?::[0-9a-f]{1,4}){0,6}::[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})"
        r"(?![\w:])",
        ADDRESS,
    ),
    _rule(
        "a hardware address",
        ":-",
        r"(?i)(?<![0-9a-z:\-])(?:(?:[0-9a-f]{2}:){5,19}|(?:[0-9a-f]{2}-){5})[0-9a-f]{2}(?![\w:\-])",
        ADDRESS,
    ),
    _rule(
        "a host name",
        ".-",
        r"(?i)(?<![a-z0-9.\-])(?:(?:[a-z0-9\-]++\.)+(?:internal|localdomain|lan|corp|intra|cluster\.local|amazonaws\.com)"
        r"|ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3})(?![\w(]|\.\w)",
        ADDRESS,
    ),
    _rule(
        "the id of a device",
        "-",
        r"\b(?:GPU|MIG)-(?:GPU-)?[0-9a-f]{8}-[0-9a-f]{4}(?:-[0-9a-f]*){0,3}",
        DEVICE,
    ),
    _rule(
        "the id of a device",
        ":",
        r"(?i)(?<![\w:.])(?P<domain>[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7](?![\w.:])",
        _bus,
    ),
)
_MARKS = re.compile("|".join(rule.marks.pattern for rule in _RULES))  # one that has none is left as it is
_PUBLIC_WEB = (
    r"(?:[\w\-]+\.)*(?:nvidia|github|githubusercontent|pytorch|python|arxiv|perfetto|doi|readthedocs|w3|llvm|gnu"
    r"|apache|example)\.(?:com|org|net|io|dev)(?![\w.\-])"
)
_REVIEW = (
    _rule("a folder of the system?", "/", r"(?<![^\s\"'=])/[A-Za-z]\w{2,}(?![\w/(*>])", ""),
    _rule("a web address?", ":", rf"(?<![A-Za-z])https?://(?!{_PUBLIC_WEB}|localhost\b)[\w.\-]+", ""),
    _rule("an id?", "-", r"(?<![\w\-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w\-])", ""),
    _rule(
        "a host's name?",
        "0123456789",
        r"(?i)(?<![\w\-])(?:dgx|hgx|node|login|rack|compute|gpu-?box|cn|srv)-?[a-z]{0,3}\d{1,4}(?![\w(])",
        "",
    ),
    _rule("the id of a device?", ":", r"(?<![\w:.])[0-9a-f]{2}:[01][0-9a-f]\.[0-7](?![\w.:])", ""),
    _rule("a host's or user's name?", ":", r"(?i)(?<!\w)(?:host|user|node|login)[ _]?name: ?[\w.\-]+", ""),
    _rule("a variable?", "=", r"(?<![\w\-])[A-Z][A-Z0-9]*_[A-Z0-9_]+=[^\s=]+", ""),
)


@lru_cache(maxsize=64)
def _rules(names: Names) -> tuple[Rule, ...]:
    rule = _rule("the name of a host or user", "", _naming(names), NAME)
    return (*_RULES, rule) if names else _RULES


def _naming(names: Names) -> re.Pattern[str]:
    listed = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{listed})(?![A-Za-z0-9])")


@lru_cache(maxsize=1 << 16)
def reduce(text: str, names: Names = ()) -> str:
    """A text in neutral words: of paths the last part, for addresses, devices and ``names`` what they are."""
    return _rewritten(text.replace("\0", ""), names, lambda match, neutral: neutral)


def mask(text: str, names: Names = ()) -> str:
    """`reduce` into as many characters: folders become ``././``, which means here, the rest x."""

    def fitted(match: re.Match[str], neutral: str) -> str:
        size = len(match.group())
        if match.re is not _PATH:
            return "x" * size
        return neutral if size == len(neutral) else ("./" * size)[: size - len(neutral) - 1] + "/" + neutral

    return _rewritten(text, names, fitted)


def _rewritten(text: str, names: Names, fit: Callable[[re.Match[str], str], str]) -> str:
    for rule in _rules(names)[0 if _MARKS.search(text) else len(_RULES) :]:
        if rule.marks.search(text):

            def put(match: re.Match[str], rule: Rule = rule) -> str:
                neutral = rule.neutral(match)
                return match.group() if neutral is None else fit(match, neutral)

            text = rule.pattern.sub(put, text)
    return text


def reduce_file(text: str, root: Path | None = None, names: Names = ()) -> str:
    """A text that is one absolute path of a source or library, without what says whose machine it was.

    The path below the repository (``root``, or wherever its ``labcode`` folder lies), below
    ``site-packages``, or from ``lib/python3.12`` on; of any other path the last part. Other texts go through
    `reduce`.
    """
    if len(text) > _LONGEST_PATH or not _WHOLE_PATH.fullmatch(text):
        return reduce(text, names)
    if root is not None and text.startswith(f"{root}/"):
        return reduce(text[len(f"{root}/") :], names)
    for pattern in _KNOWN_PLACES:
        place = pattern.search(text)
        if place is not None:
            return reduce(text[place.start(1) :], names)
    parts = [part for part in text.split("/") if part]
    if len(parts) == 1 or parts[-2] in _PEOPLE:
        return "~" if parts[0] in (*_PEOPLE, "root") else reduce(text, names)
    return reduce(parts[-1], names)


def harmless_in_sql(column: str, names: Names = ()) -> str:
    """In SQL, whether `reduce` leaves a column's text as it is: it has no mark of a rule, none of ``names``.

    Of texts in other letters than ASCII's, and with zeros, it says no.
    """
    marks = "".join(
        sorted(filter(_MARKS.match, map(chr, range(128))), key=lambda mark: (mark in "^-") - (mark == "]"))
    )
    asked = [f"{column} NOT GLOB '*[{marks}]*'", f"length(CAST({column} AS BLOB)) = length({column})"]
    words = (name.lower().replace("'", "''") for name in names)
    return " AND ".join((*asked, *(f"NOT instr(lower({column}), '{word}')" for word in words)))


def reduce_record(value: Any, names: Names = ()) -> Any:
    """`reduce` for every text of a JSON value; a value is read with its key, as in ``"HOME": "…"``."""
    if isinstance(value, str):
        return reduce(value, names)
    if isinstance(value, list):
        return [reduce_record(item, names) for item in value]
    if isinstance(value, dict):
        return {reduce(key, names): _of_key(key, item, names) for key, item in value.items()}
    return value


def _of_key(key: str, value: Any, names: Names) -> Any:
    if not isinstance(value, str):
        return reduce_record(value, names)
    head, reduced = f'"{key}": "', reduce(f'"{key}": "{value}', names)
    return reduced[len(head) :] if reduced.startswith(head) else reduce(value, names)


def texts_of_json(pairs: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """The texts of an object's pairs, each value with its key as `reduce_record` reads it."""
    for key, value in pairs:
        if isinstance(value, str):
            yield f'"{key}": "{value}"'
        else:
            yield str(key)
            if isinstance(value, list):
                yield from texts_of_list(value)


def texts_of_list(values: list[Any]) -> Iterator[str]:
    """The texts in a list and in the lists in it."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from texts_of_list(value)


def texts_of_bytes(data: bytes) -> Iterator[str]:
    """The printable runs of bytes, also those of UTF-16."""
    for run in re.findall(rb"[\x20-\x7e]{6,}", data):
        yield run.decode()
    for run in re.findall(rb"(?:[\x20-\x7e]\0){6,}", data):
        yield run[::2].decode()


def find(texts: Iterable[str], names: Names = (), *, rules: tuple[Rule, ...] = ()) -> list[str]:
    """What is private in texts: a line for each kind of find, with the first of it and how many more.

    ``names`` are words to look for as well, such as those of `machine_names` and `stated_names`.
    """
    found: dict[str, dict[str, None]] = {}
    asked = rules or _rules(names)
    marks = re.compile("|".join(rule.marks.pattern for rule in asked if rule.marks.pattern))
    for chunk in _chunks(texts):
        block = "\n".join(chunk)
        if not marks.search(block) and not _may_name(block, names):
            continue
        for rule in asked:
            if not rule.marks.search(block):
                continue
            marked = "\n".join(filter(rule.marks.search, chunk)) if rule.marks.pattern else block
            for match in rule.pattern.finditer(marked.replace("\0", "")):
                if rule.neutral(match) is not None:
                    found.setdefault(rule.what, {})[match.group()[:60]] = None
    return [
        f"{what} ({', '.join(list(which)[:8] if rules else list(which)[:1])}"
        + (f", and {len(which) - 8} more)" if rules and len(which) > 8 else ")")
        for what, which in found.items()
    ]


def _may_name(text: str, names: Names) -> bool:
    """Whether one of ``names`` may be in a text: letters other than ASCII's have more than two cases."""
    if not all(one.isascii() for one in (text, *names)):
        return True
    lower = text.replace("\0", "").lower()
    return any(name.lower() in lower for name in names)


def review(texts: Iterable[str]) -> list[str]:
    """What cannot be told from harmless text: a line for each kind, with up to eight of it."""
    return find(texts, rules=_REVIEW)


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Distinct texts as they are, zeros and all, as many at once as are searched fastest when joined."""
    seen: set[str] = set()
    held: list[str] = []
    size = 0
    for text in texts:
        if text not in seen:
            seen.add(text)
            held.append(text)
            size += len(text)
            if size > _CHUNK:
                yield held
                held, size = [], 0
    yield held


def stated_names(texts: Iterable[str], where: object) -> Names:
    """The names of hosts and users that texts state, as in ``USER=``, ``"host_name":``, ``/home/…``.

    Raises `InputError` (``WHERE: states …``) for more than `MOST_NAMES`: all texts are asked for each.
    """
    blocks = ("\n".join(chunk).replace("\0", "") for chunk in _chunks(texts))
    stating = filter(_STATING.search, blocks)
    names = _telling(m["name"] for block in stating for m in _STATED.finditer(block))
    if len(names) > MOST_NAMES:
        raise InputError(
            f"{where}: states {len(names):,} names of hosts and users, more than {MOST_NAMES}, so it is not "
            "what one run wrote; record the run again"
        )
    return names


def machine_names() -> Names:
    """The names of this machine and its user, to search for in what it is about to publish."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    return _telling(name for name in (socket.gethostname(), user) if len(name) > 4)


def own_names(texts: Iterable[str]) -> Names:
    """`machine_names` and the name of the home folder, without those that are a word of harmless texts."""
    try:
        home = Path.home().name
    except RuntimeError:
        home = ""
    names = dict.fromkeys((*machine_names(), *_telling([home] if len(home) > 4 else [])))
    for text in texts:
        names = {name: None for name in names if not _naming((name,)).search(text)}
    return tuple(names)


def _telling(names: Iterable[str]) -> Names:
    """Names, and those of hosts without their domain, without the short and the common ones."""
    both = {part for name in names for part in (name, name.split(".")[0])}
    return tuple(sorted(n for n in both if len(n) >= 4 and n.lower() not in _COMMON))
