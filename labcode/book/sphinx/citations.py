"""Citations: an entry of the bibliography in; author, short title, and year, in brackets, out. The list of
all entries has the same for labels, so that a reader of paper finds there what a page says.

Sources of one author and one year, such as the guides of a vendor, have a ``shorttitle``: without it all of
them would read alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pybtex import plugin
from pybtex.backends.plaintext import Backend as PlaintextBackend
from pybtex.richtext import Text
from pybtex.style.formatting.plain import Style as PlainStyle
from pybtex.style.labels import BaseLabelStyle
from pybtex.style.template import node
from pybtex_docutils import Backend as DocutilsBackend
from sphinxcontrib.bibtex.plugin import register_plugin
from sphinxcontrib.bibtex.style.referencing import BracketStyle
from sphinxcontrib.bibtex.style.referencing.author_year import AuthorYearReferenceStyle
from sphinxcontrib.bibtex.style.referencing.basic_author_year import (
    BasicAuthorYearParentheticalReferenceStyle,
    BasicAuthorYearTextualReferenceStyle,
)
from sphinxcontrib.bibtex.style.template import join, join2, post_text, pre_text, reference

if TYPE_CHECKING:
    from pybtex.database import Entry
    from pybtex.style.template import Node

STYLE = "author_short_title_year"


def register() -> None:
    """Make the style known by its name; for ``conf.py``."""
    register_plugin("sphinxcontrib.bibtex.style.referencing", STYLE, ShortTitleReferenceStyle)
    plugin.register_plugin("pybtex.style.formatting", STYLE, ListStyle, force=True)
    for name, backend in (("plaintext", PlaintextBackend), ("docutils", DocutilsBackend)):
        # else each citation looks through all packages that are installed
        plugin.register_plugin("pybtex.backends", name, backend, force=True)


@node  # type: ignore[untyped-decorator]
def _which(children: list[Any], data: dict[str, Any]) -> Text:
    """Which of an author's works: its short title, if it needs one, and its year."""
    fields = data["entry"].fields
    return Text(", ".join(str(fields[name]) for name in ("shorttitle", "year") if name in fields) or "n.d.")


@dataclass
class _Parenthetical(BasicAuthorYearParentheticalReferenceStyle):
    def inner(self, role_name: str) -> Node:
        """``NVIDIA, NCCL, 2025``."""
        who = self.person.author_or_editor_or_title(full="s" in role_name)
        told = reference[join(sep=self.author_year_sep)[who, _which]]
        return join2(sep1=self.pre_text_sep, sep2=self.post_text_sep)[pre_text, told, post_text]


@dataclass
class _Textual(BasicAuthorYearTextualReferenceStyle):
    def inner(self, role_name: str) -> Node:
        """``NVIDIA [NCCL, 2025]``."""
        who = self.person.author_or_editor_or_title(full="s" in role_name)
        told = join2(sep1=self.pre_text_sep, sep2=self.post_text_sep)[pre_text, reference[_which], post_text]
        return join(sep=self.text_reference_sep)[who, join[self.bracket.left, told, self.bracket.right]]


@dataclass
class ShortTitleReferenceStyle(AuthorYearReferenceStyle):
    """By author and year, and by short title where there is one."""

    bracket_parenthetical: BracketStyle = field(default_factory=lambda: BracketStyle(sep="; "))

    def __post_init__(self) -> None:
        """Put the two styles behind those of author and year: the last one that knows a role is taken."""
        super().__post_init__()  # type: ignore[no-untyped-call]
        self.styles += [
            _Parenthetical(bracket=self.bracket_parenthetical, person=self.person),
            _Textual(bracket=self.bracket_textual, person=self.person),
        ]
        self.role_style |= {role: style for style in self.styles for role in style.role_names()}


class _Labels(BaseLabelStyle):  # type: ignore[misc]
    def format_labels(self, entries: Iterable[Entry]) -> Iterator[str]:
        """What pages cite each entry by, without brackets."""
        style = ShortTitleReferenceStyle()
        told = join(sep=style.author_year_sep)[style.person.author_or_editor_or_title(full=False), _which]
        for entry in entries:
            yield told.format_data({"entry": entry, "style": style}).render(PlaintextBackend())


class ListStyle(PlainStyle):  # type: ignore[misc]
    """The bibliography: in order of authors, labeled as pages cite."""

    default_label_style = _Labels
