"""What pages tell as they are read: kept in the environment by page, until all of them were read; and scripts
that only the pages load which show something.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from docutils import nodes
from sphinx.environment.collectors import EnvironmentCollector

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

T = TypeVar("T")


class Noted(Generic[T]):
    """Something that pages tell, by page, under a name of its own in the environment."""

    def __init__(self, name: str) -> None:
        self._name = f"labcode_{name}"

    def __call__(self, env: BuildEnvironment) -> dict[str, T]:
        """What is known so far."""
        found: dict[str, T] = vars(env).setdefault(self._name, {})
        return found

    def changed(self, env: BuildEnvironment, now: object) -> bool:
        """Whether ``now`` differs from what this was asked with before."""
        before, vars(env)[f"{self._name}_before"] = vars(env).get(f"{self._name}_before"), now
        return bool(before != now)


class NotingCollector(EnvironmentCollector):
    """Notes what a page tells when it is read, in ``notes``."""

    notes: ClassVar[tuple[Noted[Any], ...]]

    def clear_doc(self, app: Sphinx, env: BuildEnvironment, docname: str) -> None:
        """Forget a page that is read again or gone."""
        for note in self.notes:
            note(env).pop(docname, None)

    def merge_other(
        self, app: Sphinx, env: BuildEnvironment, docnames: AbstractSet[str], other: BuildEnvironment
    ) -> None:
        """Take over what a reading process found."""
        for note in self.notes:
            note(env).update({name: found for name, found in note(other).items() if name in docnames})

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        """Note what a page tells."""
        raise NotImplementedError


def add_files(app: Sphinx, mark: str, *files: str) -> None:
    """Load scripts and styles on the pages whose body holds a class that begins with ``mark``."""

    def add(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
        if f'class="{mark}' in str(context.get("body", "")):
            for name in files:
                if name.endswith(".js"):
                    app.add_js_file(name, loading_method="defer")
                else:
                    app.add_css_file(name)

    app.connect("html-page-context", add)
