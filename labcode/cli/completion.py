"""A shell's name in; the script of Typer that has it complete commands and options out."""

from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from labcode.cli.plain import ASKED
from labcode.errors import LabError, nearest

SHELLS = ("bash", "zsh", "fish")


def completion(
    shell: Annotated[
        str,
        typer.Argument(help="bash, zsh or fish.", metavar="SHELL", autocompletion=lambda: list(SHELLS)),
    ],
) -> None:
    """Print a script that completes commands and options: bash, zsh or fish.

    bash: labcode completion bash > ~/.local/share/bash-completion/completions/labcode

    zsh: labcode completion zsh > a file _labcode in a folder of $fpath

    fish: labcode completion fish > ~/.config/fish/completions/labcode.fish
    """
    if shell not in SHELLS:
        raise LabError(f"completion {shell}: no shell that is completed in; {nearest(shell, SHELLS)}")
    typer.echo(get_completion_script(prog_name="labcode", complete_var=ASKED, shell=shell))
