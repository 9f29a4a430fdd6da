"""Completion scripts for bash, zsh and fish, from a list of what can stand where. Pure.

The scripts compare words in `case` and `switch` only. An associative array would be shorter, but bash expands its
subscripts once more: a `$(…)` in a half-typed line would run.
"""

import shlex
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple


class Place(NamedTuple):
    """What can stand behind one command, such as `tipstaff keys`."""

    path: str
    words: tuple[str, ...]  # where no option was begun; none means the name of a file
    options: tuple[str, ...]
    values: dict[str, tuple[str, ...]]  # by option that takes one; none means the name of a file


def bash(places: Sequence[Place]) -> str:
    """Write the script for bash."""
    return f"""\
_tipstaff() {{
    local IFS=$' \\t\\n' current=${{COMP_WORDS[COMP_CWORD]}} before=("${{COMP_WORDS[@]:1:COMP_CWORD-1}}")
{_candidates(places)}
    COMPREPLY=($(compgen -W "$candidates" -- "$current"))
}}
complete -o default -F _tipstaff tipstaff
"""


def zsh(places: Sequence[Place]) -> str:
    """Write the script for zsh: to be sourced, or to be found as `_tipstaff` on the fpath."""
    return f"""\
#compdef tipstaff
_tipstaff() {{
    local current=${{words[CURRENT]}} before=("${{(@)words[2,CURRENT-1]}}")
{_candidates(places)}
    if [[ -n $candidates ]]; then compadd -- ${{=candidates}}; else _files; fi
}}
if [[ $funcstack[1] == _tipstaff ]]; then _tipstaff "$@"; else compdef _tipstaff tipstaff; fi
"""


def fish(places: Sequence[Place]) -> str:
    """Write the script for fish."""
    paths = " ".join(shlex.quote(place.path) for place in places[1:])
    lines = [line for place in places for line in _fish_lines(place)]
    return f"""\
function __tipstaff_place
    set -l place tipstaff
    for word in (commandline -opc)[2..-1]
        test "$word" = --; and break
        switch "$place $word"
            case {paths}
                set place "$place $word"
        end
    end
    echo $place
end
{chr(10).join(lines)}
"""


def _candidates(places: Sequence[Place]) -> str:
    """Write what bash and zsh share: from `before` and `current` to `candidates`; zsh has a `path` of its own."""
    paths = "|".join(shlex.quote(place.path) for place in places[1:])
    values = [
        f"    {shlex.quote(f'{place.path} {option}')}) candidates={shlex.quote(' '.join(words))} ;;"
        for place in places
        for option, words in place.values.items()
    ]
    others = [
        f"        {shlex.quote(place.path)}) candidates={shlex.quote(' '.join(place.words))}"
        f" options={shlex.quote(' '.join(place.options))} ;;"
        for place in places
    ]
    return f"""\
    local place=tipstaff candidates='' options='' word=''
    for word in "${{before[@]}}"; do
        [[ $word == -- ]] && return
        case "$place $word" in {paths}) place="$place $word" ;; esac
    done
    case "$place $word" in
{chr(10).join(values)}
    *)
        case $place in
{chr(10).join(others)}
        esac
        if [[ $current == -* ]]; then candidates=$options; fi ;;
    esac"""


def _fish_lines(place: Place) -> list[str]:
    here = f"complete -c tipstaff -n 'test (__tipstaff_place) = \"{place.path}\"'"
    lines = [f"{here} -f -a '{' '.join(place.words)}'"] if place.words else []
    for option in place.options:
        name = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
        values = place.values.get(option)
        taking = "" if values is None else f" -x -a '{' '.join(values)}'" if values else " -r"
        lines.append(f"{here} {name}{taking}")
    return lines


SCRIPTS: Final[dict[str, Callable[[Sequence[Place]], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}
