"""`labcode record`: a command in; what the tools recorded of it, and the report on that, out."""

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from labcode.errors import LabError
from labcode.inputs import plain_file
from labcode.outputs import refuse_existing, staged
from labcode.record import command as recorder
from labcode.record.attend import neutral
from labcode.verbs.report import page
from labcode.verbs.report.document import Document
from labcode.verbs.report.writing import brief


def record(
    command: Sequence[str],
    output: Path,
    notes: TextIO,
    *,
    tools: Sequence[str] = (),
    energy: bool = False,
    lines: bool = True,
    before: Path | None = None,
    limit_s: float | None = None,
    force: bool = False,
) -> int:
    """Record a command, write the report ``output`` with the recordings beside it, and return its exit code.

    ``notes`` gets what there is to say: the report in brief, the files, why something is missing. For the
    options see `labcode.record.command`; ``before`` is a recording to compare with. Raises `LabError` for bad
    use before anything runs, and for a report that cannot be made of a program that ended well.
    """
    page.format_of(output, None)
    chosen = recorder.tools_for(command, tools)
    name = output.stem
    if before is not None:
        plain_file(before)
    refuse_existing(output.parent, [output.name, *recorder.names(name, chosen, energy=energy)], force=force)
    said: list[str] = []

    def tell(document: Document) -> None:
        said.extend(brief(document))

    with staged(output.parent, force=force) as work:  # kept, whatever becomes of the report
        made = recorder.record(command, work, name, tools=chosen, energy=energy, lines=lines, limit_s=limit_s)
        written = [path.name for path in work.iterdir()]
    for note in made.notes:
        print(f"note: {note}", file=notes)
    try:
        if made.files:
            with staged(output.parent, force=force) as work:
                page.write_report(
                    [output.parent / path.name for path in made.files],
                    work / output.name,
                    before=[before] if before is not None else [],
                    title=neutral(command),
                    linked_from=output.parent,
                    told=tell,
                )
            written.append(output.name)
    except LabError as error:
        if not made.code:
            raise
        print(f"labcode: {error}", file=notes)
    finally:
        for line in [*said, *(str(output.parent / one) for one in sorted(written))]:
            print(line, file=notes)
    if made.code:
        print(f"labcode: the program ended with exit code {made.code}", file=notes)
    return made.code
