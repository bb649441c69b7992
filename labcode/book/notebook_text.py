"""The text of a page for notebook programs: MyST Markdown with the book's directives in, plain Markdown out.

A notebook program knows no directives: a question is quoted with its choices, and what was measured folded
below it; notes are quotations, sources are code, exercises and captures are named, and what the page cites is
listed at its end. Links lead to other notebooks, or to published pages.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from labcode import store
from labcode.book import provenance
from labcode.book.sphinx import calculator
from labcode.book.sphinx.directives import needs_text
from labcode.book.sphinx.publishing import OF_THIS_COPY
from labcode.errors import InputError
from labcode.grading import catalogue
from labcode.grading.needs import in_words
from labcode.grading.records import KINDS, MAX_STARS
from labcode.show import html

_FENCE = re.compile(r"(?P<indent> *)(?P<mark>`{3,}|:{3,}) *(?:\{(?P<name>[\w:-]+)\} *(?P<about>.*)|.*)")
_OPTION = re.compile(r" *:([\w-]+): ?(.*)")
_NOT_SHOWN = re.compile(r"^(?:\([\w-]+\)=|%.*|\{[.#][^}\n]*\}|\{\{ *\w+ *\}\})$\n?", re.MULTILINE)
_INLINE = re.compile(
    r"\{(?P<role>[\w:-]+)\}(?P<mark>`+)(?P<said>.+?)(?P=mark)"
    r"|(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<picture>!?)\[(?P<text>(?:[^\[\]`]|`[^`\n]*`)*)\]\((?P<to>[^)\s]+)\)",
    re.DOTALL,
)
_TITLE = re.compile(r"^# +(.+)$", re.MULTILINE)
_NOTES = {"note": "Note", "tip": "Tip", "warning": "Warning", "important": "Important"}
_ELSEWHERE = {
    "toctree": "",
    "occupancy-calculator": calculator.WITHOUT_SCRIPTS,
    "capture-times": "How long each capture took stands in a table of the HTML edition.",
}
_CELLS = "{code-cell}"


@dataclass(frozen=True)
class Page:
    """A page and what is known of it: the values of its text, and each question's answer with its GPU.

    ``folder`` is that of all pages, ``published`` where they are on the web, with a slash at its end, or
    empty. ``cited`` collects the keys of what its text cites.
    """

    path: Path
    folder: Path
    set_name: str
    published: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    cited: dict[str, None] = field(default_factory=dict)


def plain(page: Page, text: str) -> str:
    """A piece of the page in plain Markdown; `InputError` for a directive that notebooks cannot show."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(_blocks(page, text.splitlines()))).strip("\n")


def sources(page: Page) -> str:
    """What the page cites, as a list in Markdown; empty where it cites nothing."""
    if not page.cited:
        return ""
    entries = _bibliography(page.folder / "references.bib")
    return "\n".join(["## Sources", "", *sorted(f"- {_entry(entries[key])}" for key in page.cited)])


def _blocks(page: Page, lines: list[str]) -> Iterator[str]:
    prose = list[str]()
    at = 0
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at])
        if fence is None:
            prose.append(lines[at])
            at += 1
            continue
        yield from _prose(page, prose)
        prose = []
        end = _end(lines, at, fence["mark"])
        indent = fence["indent"]
        body = [line.removeprefix(indent) for line in lines[at + 1 : end]]
        if fence["name"]:
            made = _directive(page, fence["name"], fence["about"], body)
            yield from ("", *(indent + line if line else "" for line in made), "")
        else:
            yield from lines[at : end + 1]
        at = end + 1
    yield from _prose(page, prose)


def _end(lines: list[str], at: int, mark: str) -> int:
    closing = re.compile(rf" *{mark[0]}{{{len(mark)},}} *")
    return next((n for n in range(at + 1, len(lines)) if closing.fullmatch(lines[n])), len(lines))


def _prose(page: Page, lines: list[str]) -> list[str]:
    return _inline(page, _NOT_SHOWN.sub("", "\n".join([*lines, ""]))).split("\n")[:-1] if lines else []


def _directive(page: Page, name: str, about: str, body: list[str]) -> list[str]:
    options = dict[str, str]()
    while body and (option := _OPTION.fullmatch(body[0])):
        options[option[1]] = option[2]
        body = body[1:]
    if name in _ELSEWHERE:
        return [f"*{_ELSEWHERE[name]}*"] if _ELSEWHERE[name] else []
    if name in _NOTES or name == "admonition":
        title = about if name == "admonition" else _NOTES[name]
        return _quoted([f"**{_inline(page, title)}**", "", *_inner(page, body)])
    show = _SHOWN.get(name)
    if show is None:
        raise InputError(f"{page.path}: notebooks cannot show the directive {name!r}")
    return show(page, about.strip(), options, body)


def _inner(page: Page, body: list[str]) -> list[str]:
    return plain(page, "\n".join(body)).split("\n")


def _quoted(lines: list[str]) -> list[str]:
    return [f"> {line}".rstrip() for line in lines]


def _folded(summary: str, lines: list[str]) -> list[str]:
    return [f"<details><summary>{html(summary)}</summary>", "", *lines, "", "</details>"]


def _predict(page: Page, key: str, options: dict[str, str], body: list[str]) -> list[str]:
    lines = ["**Predict**", "", *_inner(page, body)]
    if key in page.answers:
        shown, machine = page.answers[key]
        lines += ["", *_folded("What was measured", [f"**{shown}** ({machine})"])]
    return _quoted(lines)


def _dropdown(page: Page, title: str, options: dict[str, str], body: list[str]) -> list[str]:
    return _folded(_inline(page, title).replace("`", ""), _inner(page, body))


def _titled(page: Page, title: str, options: dict[str, str], body: list[str]) -> list[str]:
    return [*([f"**{_inline(page, title)}**", ""] if title else []), *_inner(page, body)]


def _group(page: Page, about: str, options: dict[str, str], body: list[str]) -> list[str]:
    return _inner(page, body)


def _math(page: Page, about: str, options: dict[str, str], body: list[str]) -> list[str]:
    return ["$$", *body, "$$"]


def _table(page: Page, about: str, options: dict[str, str], body: list[str]) -> list[str]:
    rows = list[list[str]]()
    for line in filter(str.strip, body):
        first, cell = re.match(r"\* +- ?(.*)", line), re.match(r" +- ?(.*)", line)
        if first is not None:
            rows.append([first[1]])
        elif cell is not None:
            rows[-1].append(cell[1])
        else:
            rows[-1][-1] += f" {line.strip()}"
    cells = [[_inline(page, cell).replace("|", "\\|") for cell in row] for row in rows]
    if "header-rows" not in options:
        cells.insert(0, [""] * len(cells[0]))
    cells.insert(1, ["---"] * len(cells[0]))
    return [f"| {' | '.join(row)} |" for row in cells]


def _source(page: Page, name: str, options: dict[str, str], body: list[str]) -> list[str]:
    from sphinx.config import Config
    from sphinx.directives.code import LiteralInclude, LiteralIncludeReader

    known = LiteralInclude.option_spec
    read: dict[str, Any] = {key: known[key](_option(value)) for key, value in options.items()}
    text, _ = LiteralIncludeReader(str(page.path.parent / name), read, Config()).read()
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    path = Path(os.path.normpath(page.path.parent / name)).relative_to(page.folder.resolve().parent)
    language = options.get("language", "").replace("cuda", "cpp")
    return [f"`{path.as_posix()}`:", "", fence + language, *text.rstrip("\n").split("\n"), fence]


def _option(value: str) -> Any:
    return (json.loads(value) if re.fullmatch('".*"', value) else value.strip("'")) or None


def _captures(page: Page, names: str, options: dict[str, str], body: list[str]) -> list[str]:
    wanted = page.set_name
    held = [(store.holder(wanted, name), name) for name in names.split()]
    if "every-set" in options:
        sets = [store.load_set(name) for name in store.list_sets()]
        held = [(one, name) for one in sets for name in names.split() if name in one.experiments]
    stamps = [provenance.stamp(captures, name, wanted) for captures, name in held]
    lines = list[str]()
    for machine in dict.fromkeys(stamp.machine for stamp in stamps):
        lines += ["", f"**Measured on** {' · '.join(machine)}", ""]
        lines += [
            f"- {' · '.join((stamp.title, *stamp.how))}" for stamp in stamps if stamp.machine == machine
        ]
    return _quoted(lines[1:])


def _exercise(page: Page, name: str, options: dict[str, str], body: list[str]) -> list[str]:
    exercise = catalogue.get(name)
    stars = "★" * exercise.stars + "☆" * (MAX_STARS - exercise.stars)
    lines = [
        f"**{KINDS[exercise.kind]}: {exercise.title}**",
        "",
        f"{stars} about {exercise.minutes} minutes · {needs_text(exercise)}",
        "",
        exercise.summary,
        "",
    ]
    for part in exercise.parts:
        needs = f" (needs {in_words(part.needs)})" if part.needs else ""
        lines.append(f"- **{part.letter}**: {part.title}, in `exercises/{exercise.path(part)}`{needs}")
    return _quoted([*lines, "", f"In a checkout of the book: `nox -s exercises -- {exercise.short}`"])


_SHOWN: dict[str, Callable[[Page, str, dict[str, str], list[str]], list[str]]] = {
    "captures-used": _captures,
    "dropdown": _dropdown,
    "exercise-card": _exercise,
    "grid": _group,
    "grid-item-card": _titled,
    "list-table": _table,
    "literalinclude": _source,
    "math": _math,
    "predict": _predict,
    "tab-item": _titled,
    "tab-set": _group,
}


SHOWN = {*_SHOWN, *_NOTES, *_ELSEWHERE, "admonition"}  # the directives that notebooks can show


def _inline(page: Page, text: str) -> str:
    def shown(found: re.Match[str]) -> str:
        if found["code"]:
            return found["code"]
        if found["role"]:
            return _role(page, found["role"], " ".join(found["said"].split()), found[0])
        return _link(page, found["text"], found["to"], picture=bool(found["picture"]))

    return _INLINE.sub(shown, text)


def _role(page: Page, role: str, said: str, whole: str) -> str:
    words, _, name = said.removesuffix(">").partition(" <")
    if role == "glue:text":
        return page.values.get(said, whole)
    if role == "math":
        return f"${said}$"
    if role in ("cite", "cite:t"):
        keys = [key.strip() for key in said.split(",")]
        page.cited.update(dict.fromkeys(keys))
        named = [_who(_bibliography(page.folder / "references.bib")[key]) for key in keys]
        if role == "cite":
            return "(" + "; ".join(f"{who}, {year}" if year else who for who, year in named) + ")"
        return ", ".join(f"{who} ({year})" if year else who for who, year in named)
    if role in ("exercise", "capture") or (role == "seen" and not name):
        return f"`{words}`"
    return words


def _link(page: Page, text: str, to: str, *, picture: bool) -> str:
    said = _inline(page, text)
    if picture:
        return f"*{said}*"
    if re.match(r"\w+:", to):
        return f"[{said}]({to})"
    name, _, anchor = to.partition("#")
    target = (page.path.parent / name).resolve() if name else page.path
    if target.suffix != ".md" or not target.is_file():
        return said
    there = target.read_text(encoding="utf-8")
    said = said or _heading(page, there)
    if not name:
        return said
    inside = target.relative_to(page.folder.resolve())
    if _CELLS in there and inside.with_suffix("").as_posix() not in OF_THIS_COPY:
        return f"[{said}]({Path(name).with_suffix('.ipynb').as_posix()})"
    if not page.published:
        return said
    address = page.published + inside.with_suffix(".html").as_posix()
    return f"[{said}]({address}{'#' + anchor if anchor else ''})"


def _heading(page: Page, text: str) -> str:
    found = _TITLE.search(text)
    return _inline(page, found[1]) if found else ""


@cache
def _bibliography(path: Path) -> dict[str, Any]:
    from pybtex.database import parse_file

    return dict(parse_file(str(path)).entries)


def _who(entry: Any) -> tuple[str, str]:
    """The authors of a source in few words, and its year."""
    names = [_words(" ".join(person.last_names)) for person in entry.persons.get("author", ())]
    names = names or [_words(entry.fields.get("organization", entry.fields.get("title", "")))]
    who = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
    if short := entry.fields.get("shorttitle"):  # of those that published several in a year
        who += f", {_words(short)}"
    return who, entry.fields.get("year", "")


def _entry(entry: Any) -> str:
    who, year = _who(entry)
    title, address = _words(entry.fields["title"]), _address(entry)
    return ", ".join(filter(None, [f"{who}: *{title}*", year, address]))


def _address(entry: Any) -> str:
    fields = entry.fields
    address = fields.get("url") or (f"https://doi.org/{fields['doi']}" if "doi" in fields else "")
    return f"<{address}>" if address else ""


def _words(text: str) -> str:
    """A field of a bibliography without its commands."""
    from pybtex.richtext import Text

    return str(Text.from_latex(text))
