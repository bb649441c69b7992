"""Claims and figures of all pages: doctrees in; the table of all claims, ``claims.json`` and a build's
verdict out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.errors import NoUri
from sphinx.util import logging

from labcode import store
from labcode.book import claims as claims_file
from labcode.book import provenance
from labcode.book.sphinx.directives import all_claims, stamp_box
from labcode.book.sphinx.failing import failed
from labcode.book.sphinx.folding import OTHER_GPU
from labcode.book.sphinx.noted import Noted, NotingCollector
from labcode.book.sphinx.render import DIFFERS, claim_box, fill_claim, inline_nodes, plain_table
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


_by_page = Noted[list[tuple[Claim, tuple[str, ...]]]](
    "claims"
)  # with the experiments of another set they rest on
_differing = Noted[list[str]]("differing")  # how pictures of a page differ from what they were drawn from
_listing = Noted[None]("listing_pages")


class ClaimCollector(NotingCollector):
    """Keeps in the environment which page makes which claims, and which pages list all of them."""

    notes = (_by_page, _differing, _listing)

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        """Note the claims of a page that was read."""
        docname = app.env.current_document.docname
        found = [(Claim(**box["claim"]), tuple(box["borrowed"])) for box in doctree.findall(claim_box)]
        if found:
            _by_page(app.env)[docname] = found
        lines = [
            f"figure “{_name_of(picture)}”: {line}"
            for picture in doctree.findall(nodes.figure)
            for line in list[str](picture.get(DIFFERS, ()))
        ]
        if lines:
            _differing(app.env)[docname] = lines
        if any(True for _ in doctree.findall(all_claims)):
            _listing(app.env)[docname] = None


def claims_of(env: BuildEnvironment) -> dict[str, Claim | None]:
    """Every claim of the book by ``page#key``, in the order of the table of contents, with its value on the
    set of this build.

    Of a value that rests on experiments of another set this is the one recorded when the set was whole, or
    ``None``.
    """
    recorded, whole = recorded_claims(env.config.labcode_set), _measured_by(env.config.labcode_set)
    return {
        (name := f"{page}#{claim.key}"): _own(recorded, name, borrowed, whole) if borrowed else claim
        for page in reading_order(env)
        for claim, borrowed in _by_page(env).get(page, ())
    }


def _measured_by(set_name: str) -> frozenset[str]:
    """The experiments of today that a set has measured, also those whose traces are elsewhere."""
    captures = store.load_set(set_name)
    return frozenset(name for name in captures.experiments if not store.older_runs(captures, name))


def _own(
    recorded: Mapping[str, Claim], key: str, borrowed: Sequence[str], whole: frozenset[str]
) -> Claim | None:
    """What a set recorded of a claim that now rests on another set: only if it measured all of that."""
    return recorded.get(key) if whole.issuperset(borrowed) else None


def recorded_claims(set_name: str) -> dict[str, Claim]:
    """The claims that a set's ``claims.json`` records."""
    return store.read_claims(store.claims_path(set_name))


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of figures that differ from their tables, of claims that are false on the shipped set, of doubled
    keys, and in strict builds of a record out of date.
    """
    for page, lines in _differing(env).items():
        for line in lines:
            _warn(page, line)
    shipped = app.config.labcode_set == store.SHIPPED_SET
    for page, found in _by_page(env).items():
        keys = [claim.key for claim, _ in found]
        for key in sorted({key for key in keys if keys.count(key) > 1}):
            _warn(page, f"two claims of this page have the key {key!r}; give one of them key=")
        for claim, _ in found:
            if shipped and not claim.holds:
                _warn(page, f"claim {claims_file.as_line(claim)}")
    if app.config.labcode_strict and not app.config.labcode_update_claims and shipped:
        path = store.claims_path(app.config.labcode_set)
        lines = claims_file.differences(store.read_claims(path), _measured(env))
        if lines:
            more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
            _warn(
                None,
                f"{path} is not what this build found: {lines[0]}{more}; look at it, then run {_REFRESH}",
            )


def _measured(env: BuildEnvironment) -> dict[str, Claim]:
    return {key: claim for key, claim in claims_of(env).items() if claim is not None}


def _resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    _say_what_is_lacking(doctree)
    boxes = list(doctree.findall(claim_box))
    if boxes:
        sets = SideBySide(app.config.labcode_set)
        for box in boxes:
            sets.complete(box, f"{docname}#{box['claim']['key']}")
    for placeholder in list(doctree.findall(all_claims)):
        placeholder.replace_self(_claims_table(app, docname, placeholder["only"]))


def _say_what_is_lacking(doctree: nodes.document) -> None:
    """Below a page's title: what of it is not of the set that the book is built around, and why."""
    lacking = [sentence for box in doctree.findall(stamp_box) for sentence in box["lacking"]]
    title = next(iter(doctree.findall(nodes.title)), None)
    if not lacking or title is None:
        return
    note = nodes.paragraph(classes=["lab-lacking"])
    note += inline_nodes(" ".join(dict.fromkeys(lacking)))
    title.parent.insert(title.parent.index(title) + 1, note)


class SideBySide:
    """The sets at hand, to say in a claim's box what the other sets have."""

    def __init__(self, current: str) -> None:
        """Read the claims and the GPU's name of each set."""
        self.current = current
        self.claims = {name: recorded_claims(name) for name in store.list_sets()}
        self.labels = provenance.set_labels()
        self.whole = _measured_by(current)

    def complete(self, box: claim_box, key: str) -> None:
        """Put the current set's value into a box whose value was computed from another one, and add the line
        with the other sets' values.
        """
        computed = claim = Claim(**box["claim"])
        notes: list[list[nodes.Node]] = []
        others = [name for name in self.claims if name != self.current]
        mine = _own(self.claims[self.current], key, box["borrowed"], self.whole)
        if box["borrowed"] and mine is not None:
            claim = mine
            fill_claim(box, claim)
            notes.append([nodes.Text("recorded with the whole set")])
        elif box["borrowed"]:
            box["classes"] = ["lab-claim", "lab-claim-borrowed"]
            lender = store.holder(self.current, box["borrowed"][0]).name
            here, there = self.labels[self.current], self.labels[lender]
            notes.append([nodes.Text(f"measured on {there}, not on {here}")])
            others = [name for name in others if name != lender]
        own = claim is not computed or not box["borrowed"]
        if own and not claim.holds and self.current != store.SHIPPED_SET:
            notes.append([nodes.Text("does not hold on this GPU")])
        if computed.host:
            notes.append([nodes.Text("depends on the host")])
        own_notes = len(notes)
        for name in others:
            other = self.claims[name].get(key)
            if other is not None:
                bound = f" ({other.bound})" if other.bound != claim.bound else ""
                notes.append([nodes.Text(f"{self.labels[name]}: "), *_value(other), nodes.Text(bound)])
        if notes:
            line = nodes.paragraph(classes=["lab-claim-compare", *([] if own_notes else [OTHER_GPU])])
            for position, note in enumerate(notes):
                switched = [OTHER_GPU] if position >= own_notes else []
                if position:
                    line += nodes.inline(text=" · ", classes=switched)
                line += nodes.inline("", "", *note, classes=["lab-claim-note", *switched])
            box += line


def _claims_table(app: Sphinx, docname: str, only: str) -> nodes.Node:
    """All claims of the book, or only those that a second set changes in the way that ``only`` says."""
    current = app.config.labcode_set
    found = claims_of(app.env)
    if not found:
        return nodes.paragraph(text="No page of this build makes a claim.")
    if only:
        from labcode.book import two_sets  # and with it pandas, which other pages do without

        compared = two_sets.claims(two_sets.pair())
        changed = set(compared.index[compared["change"] == only])
        found = {key: claim for key, claim in found.items() if key in changed}
        if not found:
            return nodes.paragraph(text="None.")
    others = {name: recorded_claims(name) for name in store.list_sets() if name != current}
    sets: dict[str, Mapping[str, Claim | None]] = {current: found, **others}
    labels = provenance.set_labels()
    rows = list(_rows(app, docname, found, sets))
    widths = (8, 3, *(2 for _ in sets))
    return plain_table(("Claim", "Bound", *(labels[name] for name in sets)), widths, rows, "lab-claims")


def _rows(
    app: Sphinx,
    docname: str,
    found: Mapping[str, Claim | None],
    sets: Mapping[str, Mapping[str, Claim | None]],
) -> Iterator[list[list[nodes.Node]]]:
    stated = {f"{page}#{claim.key}": claim for page, of in _by_page(app.env).items() for claim, _ in of}
    last = ""
    for key in found:
        page, claim = key.split("#")[0], stated[key]
        if page != last:
            title = _reference(app, docname, page, "")
            title += nodes.Text(app.env.titles[page].astext())
            yield [[title]]
            last = page
        sentence = _reference(app, docname, page, f"claim-{claim.key}")
        sentence.extend(inline_nodes(claim.text))
        host = [nodes.inline(text=" (depends on the host)", classes=["lab-host"])] if claim.host else []
        values = [_value(of_set.get(key)) for of_set in sets.values()]
        yield [[sentence, *host], [nodes.Text(claim.bound or "true")], *values]


def _value(claim: Claim | None) -> list[nodes.Node]:
    if claim is None:
        return [nodes.Text(_ABSENT)]
    name = "lab-holds" if claim.holds else "lab-fails"
    return [nodes.inline(text=f"{claim.mark} {claim.shown}", classes=[name])]


def _reference(app: Sphinx, docname: str, page: str, anchor: str) -> nodes.Element:
    """A link to a place on a page; plain text where the output does not hold that page (a PDF of a part)."""
    try:
        uri = app.builder.get_relative_uri(docname, page) + (f"#{anchor}" if anchor else "")
    except NoUri:
        return nodes.inline()
    return nodes.reference("", "", internal=True, refuri=uri)


def _pages_to_rewrite(app: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """The pages that list all claims, whenever a claim differs from when they were last written."""
    return sorted(_listing(env)) if _by_page.changed(env, claims_of(env)) else []


def _write(app: Sphinx, exception: Exception | None) -> None:
    if exception is not None:
        return
    found = _measured(app.env)
    claims_file.write_claims(Path(app.outdir) / store.CLAIMS_FILE, app.config.labcode_set, found)
    if app.config.labcode_update_claims and failed(app.env):
        LOGGER.info("claims are not recorded: pages failed, and theirs would be lost")
    elif app.config.labcode_update_claims:
        path = store.claims_path(app.config.labcode_set)
        claims_file.write_claims(path, app.config.labcode_set, found)
        LOGGER.info("%d claims recorded in %s", len(found), path)


def _warn(page: str | None, message: str) -> None:
    LOGGER.warning(message, location=page, type="labcode", subtype="claim")


def _name_of(picture: nodes.figure) -> str:
    """The caption's first sentence; without one, how the description begins."""
    caption = next((one.astext() for one in picture.findall(nodes.caption)), "")
    alt = next((str(image.get("alt", "")) for image in picture.findall(nodes.image)), "")
    return (caption or alt).split(". ")[0]


def reading_order(env: BuildEnvironment) -> list[str]:
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
