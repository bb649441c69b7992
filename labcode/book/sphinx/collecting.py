"""Claims of all pages: doctrees in; the table of all claims, ``claims.json`` and a build's verdict out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.environment.collectors import EnvironmentCollector
from sphinx.errors import NoUri
from sphinx.util import logging

from labcode import store
from labcode.book import claims as claims_file
from labcode.book.sphinx.directives import all_claims
from labcode.book.sphinx.render import claim_box, inline_nodes, plain_table
from labcode.store import Claim

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

LOGGER = logging.getLogger(__name__)
_REFRESH = "`python -m labcode book --update-claims`"
_ABSENT = "–"


def register(app: Sphinx) -> None:
    """Connect the collector and the checks."""
    app.add_env_collector(ClaimCollector)
    app.connect("env-updated", _pages_to_rewrite)
    app.connect("env-check-consistency", check)
    app.connect("doctree-resolved", _resolve)
    app.connect("build-finished", _write)


class ClaimCollector(EnvironmentCollector):
    """Keeps in the environment which page makes which claims, and which pages list all of them."""

    def clear_doc(self, app: Sphinx, env: BuildEnvironment, docname: str) -> None:
        """Forget a page that is read again or gone."""
        _by_page(env).pop(docname, None)
        _listing_pages(env).discard(docname)

    def merge_other(
        self, app: Sphinx, env: BuildEnvironment, docnames: AbstractSet[str], other: BuildEnvironment
    ) -> None:
        """Take over what a reading process found."""
        for docname in docnames & set(_by_page(other)):
            _by_page(env)[docname] = _by_page(other)[docname]
        _listing_pages(env).update(docnames & _listing_pages(other))

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        """Note the claims of a page that was read."""
        docname = app.env.current_document.docname
        found = [Claim(**box["claim"]) for box in doctree.findall(claim_box)]
        if found:
            _by_page(app.env)[docname] = found
        if any(True for _ in doctree.findall(all_claims)):
            _listing_pages(app.env).add(docname)


def claims_of(env: BuildEnvironment) -> dict[str, Claim]:
    """Every claim of the book by ``page#key``, in the order of the table of contents."""
    pages = _by_page(env)
    return {f"{page}#{claim.key}": claim for page in _reading_order(env) for claim in pages.get(page, ())}


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of claims that are false on the shipped set, of doubled keys, and in strict builds of a record out
    of date.
    """
    for page, found in _by_page(env).items():
        keys = [claim.key for claim in found]
        for key in sorted({key for key in keys if keys.count(key) > 1}):
            _warn(page, f"two claims of this page have the key {key!r}; give one of them key=")
        if app.config.labcode_set == store.SHIPPED_SET:
            for claim in found:
                if not claim.holds:
                    _warn(page, f"claim {claims_file.as_line(claim)}")
    strict = app.config.labcode_strict and not app.config.labcode_update_claims
    if strict and app.config.labcode_set == store.SHIPPED_SET:
        path = store.claims_path(app.config.labcode_set)
        lines = claims_file.differences(store.read_claims(path), claims_of(env))
        if lines:
            more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
            _warn(
                None,
                f"{path} is not what this build found: {lines[0]}{more}; look at it, then run {_REFRESH}",
            )


def _resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.config.labcode_set != store.SHIPPED_SET:
        shipped = store.read_claims(store.claims_path(store.SHIPPED_SET))
        for box in doctree.findall(claim_box):
            _compare(box, shipped.get(f"{docname}#{box['claim']['key']}"))
    for placeholder in list(doctree.findall(all_claims)):
        placeholder.replace_self(_all_claims_table(app, docname))


def _compare(box: claim_box, shipped: Claim | None) -> None:
    """Say in a claim's box whether it holds on this GPU, and what the shipped set has."""
    parts = [] if box["claim"]["holds"] else [f"Does not hold on this GPU: {box['claim']['shown']}."]
    if shipped is not None:
        parts.append(f"On the book's {store.SHIPPED_SET.upper()}: {shipped.shown}.")
    if parts:
        box += nodes.paragraph(text=" ".join(parts), classes=["lab-claim-compare"])


def _all_claims_table(app: Sphinx, docname: str) -> nodes.Node:
    current = app.config.labcode_set
    found = claims_of(app.env)
    if not found:
        return nodes.paragraph(text="No page of this build makes a claim.")
    others = {
        name: store.read_claims(store.claims_path(name)) for name in store.list_sets() if name != current
    }
    sets: dict[str, Mapping[str, Claim]] = {current: found, **others}
    rows = list(_rows(app, docname, found, sets))
    widths = (8, 3, *(2 for _ in sets))
    return plain_table(("Claim", "Bound", *sets), widths, rows, "lab-claims")


def _rows(
    app: Sphinx, docname: str, found: Mapping[str, Claim], sets: Mapping[str, Mapping[str, Claim]]
) -> Iterator[list[list[nodes.Node]]]:
    last = ""
    for key, claim in found.items():
        page = key.split("#")[0]
        if page != last:
            title = _reference(app, docname, page, "")
            title += nodes.Text(app.env.titles[page].astext())
            yield [[title]]
            last = page
        sentence = _reference(app, docname, page, f"claim-{claim.key}")
        sentence.extend(inline_nodes(claim.text))
        values = [_value(of_set.get(key)) for of_set in sets.values()]
        yield [[sentence], [nodes.Text(claim.bound or "true")], *values]


def _value(claim: Claim | None) -> list[nodes.Node]:
    if claim is None:
        return [nodes.Text(_ABSENT)]
    name = "lab-holds" if claim.holds else "lab-fails"
    return [nodes.inline(text=f"{'✓' if claim.holds else '✗'} {claim.shown}", classes=[name])]


def _reference(app: Sphinx, docname: str, page: str, anchor: str) -> nodes.Element:
    """A link to a place on a page; plain text where the output does not hold that page (a PDF of a part)."""
    try:
        uri = app.builder.get_relative_uri(docname, page) + (f"#{anchor}" if anchor else "")
    except NoUri:
        return nodes.inline()
    return nodes.reference("", "", internal=True, refuri=uri)


def _pages_to_rewrite(app: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """The pages that list all claims, whenever a claim differs from when they were last written."""
    found = claims_of(env)
    state: Any = env
    if getattr(state, "labcode_claims_listed", None) == found:
        return []
    state.labcode_claims_listed = found
    return sorted(_listing_pages(env))


def _write(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None:
        return
    found = claims_of(app.env)
    claims_file.write_claims(Path(app.outdir) / store.CLAIMS_FILE, app.config.labcode_set, found)
    if app.config.labcode_update_claims:
        path = store.claims_path(app.config.labcode_set)
        claims_file.write_claims(path, app.config.labcode_set, found)
        LOGGER.info("%d claims recorded in %s", len(found), path)


def _warn(page: str | None, message: str) -> None:
    LOGGER.warning(message, location=page, type="labcode", subtype="claim")


def _by_page(env: BuildEnvironment) -> dict[str, list[Claim]]:
    state: Any = env
    if not hasattr(state, "labcode_claims"):
        state.labcode_claims = {}
    found: dict[str, list[Claim]] = state.labcode_claims
    return found


def _listing_pages(env: BuildEnvironment) -> set[str]:
    state: Any = env
    if not hasattr(state, "labcode_listing_pages"):
        state.labcode_listing_pages = set()
    found: set[str] = state.labcode_listing_pages
    return found


def _reading_order(env: BuildEnvironment) -> list[str]:
    """All pages in the order of the table of contents; pages outside of it last, by name."""
    ordered: dict[str, None] = {}

    def visit(page: str) -> None:
        if page not in ordered:
            ordered[page] = None
            for child in env.toctree_includes.get(page, ()):
                visit(child)

    visit(env.config.root_doc)
    for page in sorted(env.found_docs):
        visit(page)
    return list(ordered)
