"""All commands in; a script that has bash, zsh or fish complete them, out.

The script holds the words itself, so that a Tab starts no Python. Made anew, it knows the commands of today.
Where no word fits, shells offer files, as they do by themselves.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from labcode.errors import LabError, nearest

_LISTED = re.compile(r"(?:^|: )((?:[a-z]+, )+[a-z]+ or [a-z]+)(?=[.:;]|$)")  # the words of `--format`


@dataclass(frozen=True)
class Word:
    """A command, a group or an option, and what its help says in a line."""

    text: str
    told: str


@dataclass(frozen=True)
class Place:
    """What may follow a command: the commands of a group, options, and of options the words they take."""

    commands: tuple[Word, ...]
    options: tuple[Word, ...]
    values: Mapping[str, tuple[str, ...]]


def completion(
    context: typer.Context,
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.", metavar="SHELL")],
) -> None:
    """Print a script that completes commands and options: bash, zsh or fish.

    bash: labcode completion bash > ~/.local/share/bash-completion/completions/labcode

    zsh: labcode completion zsh > a file _labcode in a folder of $fpath

    fish: labcode completion fish > ~/.config/fish/completions/labcode.fish
    """
    if shell not in _SHELLS:
        raise LabError(f"completion {shell}: no shell that is completed in; {nearest(shell, _SHELLS)}")
    typer.echo(_SHELLS[shell](places(typer.main.get_command(context.obj()))), nl=False)


def places(command: Any, path: str = "") -> dict[str, Place]:
    """All places by the words before them, such as 'captures add'; '' is the beginning."""
    commands = getattr(command, "commands", {})
    options, values = [Word("--help", "Show this message and exit.")], {}
    words = [Word(name, _line(one.help or "")) for name, one in commands.items()]
    for one in command.params:
        told = getattr(one, "help", "") or ""
        names = [name for name in (*one.opts, *one.secondary_opts) if name.startswith("-")]
        given = tuple(_listed(told))
        if not names:
            words += [Word(text, "") for text in given]
        elif not getattr(one, "hidden", False):
            options += [Word(n, _line(told)) for n in names if n.startswith("--") and n != "--help"]
            values.update(dict.fromkeys(names, given) if given else {})
    found = {path: Place(tuple(words), tuple(options), values)}
    for name, one in commands.items():
        found |= places(one, f"{path} {name}".strip())
    return found


def _listed(told: str) -> list[str]:
    """The words that a help text lists as all there are: ``table, json or md.``"""
    found = _LISTED.search(told.replace(" (two)", ""))
    return re.findall(r"[a-z]+", found[1].replace(" or ", ", ")) if found else []


def _line(text: str) -> str:
    """The first sentence of a help text, without what a shell would read."""
    first = re.split(r"(?<=[.;:])\s|\n\n", text, maxsplit=1)[0].rstrip(".;:")
    return re.sub(r"[^\w .,;()/+<>=…-]", "", " ".join(first.split()).replace("[", "(").replace("]", ")"))


def _bash(found: Mapping[str, Place]) -> str:
    paths = "|".join(f'"{path}"' for path in found if path)
    words = "".join(
        f'        "{path}") commands="{_texts(one.commands)}" options="{_texts(one.options)}" ;;\n'
        for path, one in found.items()
    )
    values = "".join(
        f'        "{path} {option}"|"{path} {option} =") values="{" ".join(texts)}" ;;\n'
        for path, one in found.items()
        for option, texts in one.values.items()
    )
    return _BASH.format(paths=paths, words=words, values=values)


def _zsh(found: Mapping[str, Place]) -> str:
    paths = "|".join(f'"{path}"' for path in found if path)
    words = "".join(
        f'        "{path}") commands=({_described(one.commands)}) options=({_described(one.options)}) ;;\n'
        for path, one in found.items()
    )
    values = "".join(
        f'        "{path} {option}") given=({" ".join(texts)}) ;;\n'
        for path, one in found.items()
        for option, texts in one.values.items()
    )
    return _ZSH.format(paths=paths, words=words, values=values)


def _fish(found: Mapping[str, Place]) -> str:
    lines = []
    for path, one in found.items():
        there = f"-n 'test (__labcode_at) = \"{path}\"'"
        for word in one.commands:
            lines.append(f"complete -c labcode {there} -f -a {word.text} -d '{word.told}'")
        for word in one.options:
            texts = one.values.get(word.text)
            takes = f" -x -a '{' '.join(texts)}'" if texts else ""
            lines.append(f"complete -c labcode {there} -l {word.text[2:]}{takes} -d '{word.told}'")
    paths = " ".join(f"'{path}'" for path in found if path)
    return _FISH.format(paths=paths, lines="\n".join(lines))


def _texts(words: tuple[Word, ...]) -> str:
    return " ".join(word.text for word in words)


def _described(words: tuple[Word, ...]) -> str:
    return " ".join(f"'{word.text}:{word.told}'" for word in words)


_BASH = """\
# Completes labcode in bash; written by `labcode completion bash`.
_labcode() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" before="" place="" commands="" options="" values="" i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        [ "${{COMP_WORDS[i]}}" != "--" ] || return 0
        before="${{COMP_WORDS[i]}}"
        case "${{place:+$place }}$before" in
        {paths}) place="${{place:+$place }}$before" ;;
        esac
    done
    [ "$before" != "=" ] || before="${{COMP_WORDS[COMP_CWORD - 2]}}"
    if [ "$current" = "=" ]; then current=""; fi
    case "$place $before" in
{values}    esac
    if [ -n "$values" ]; then
        COMPREPLY=($(compgen -W "$values" -- "$current"))
        return 0
    fi
    case "$place" in
{words}    esac
    case "$current" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$commands" -- "$current")) ;;
    esac
}}
complete -o bashdefault -o default -F _labcode labcode
"""
_ZSH = """\
#compdef labcode
# Completes labcode in zsh; written by `labcode completion zsh`.
_labcode() {{
    local before="" place="" i
    local -a commands options given
    for ((i = 2; i < CURRENT; i++)); do
        [[ "${{words[i]}}" != "--" ]] || {{ _files; return }}
        before="${{words[i]}}"
        case "${{place:+$place }}$before" in
        {paths}) place="${{place:+$place }}$before" ;;
        esac
    done
    case "$place $before" in
{values}    esac
    if (( $#given )); then
        compadd -a given
        return
    fi
    case "$place" in
{words}    esac
    if [[ "${{words[CURRENT]}}" == -* ]]; then
        _describe -o option options
    elif (( $#commands )); then
        _describe command commands
    else
        _files
    fi
}}
if [[ "$funcstack[1]" == "_labcode" ]]; then _labcode "$@"; else compdef _labcode labcode; fi
"""
_FISH = """\
# Completes labcode in fish; written by `labcode completion fish`.
function __labcode_at
    set -l place
    for word in (commandline -opc)[2..]
        set -l longer (string trim "$place $word")
        if contains -- "$longer" {paths}
            set place $longer
        end
    end
    echo "$place"
end
{lines}
"""
_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
