"""Completion scripts for bash, zsh and fish, made from the tree of options.

The scripts hold the words of this version; only the names of locks, of queues, or of guards, are
asked for when they are wanted, with ``holdfast ls --names``, ``holdfast queue ls --names`` and
``holdfast guard ls --names``, which are quick and say nothing if the store doesn't answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from .tree import children, parser


class Option(NamedTuple):
    """One option as a shell needs it."""

    flags: tuple[str, ...]
    takes: str
    optional: bool
    text: str


class Command(NamedTuple):
    """One command as a shell needs it: its options, and what its own words are."""

    #: With the command that it is a verb of, if it is one: "queue put".
    name: str
    text: str
    options: tuple[Option, ...]
    #: "names", "command", "none", or the words that there are.
    words: tuple[str, ...] | str


def completion(options: argparse.Namespace) -> int:
    """Print the script for one shell."""
    script = {"bash": bash, "zsh": zsh, "fish": fish}[options.shell]
    print("\n".join(script(list(commands()))))
    return 0


def commands() -> Iterator[Command]:
    """The tree, boiled down."""
    yield from _below(parser(), "")


def _below(of: argparse.ArgumentParser, path: str) -> Iterator[Command]:
    texts = {
        choice.dest: str(choice.help)
        for action in of._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }
    for name, child in children(of).items():
        flags = tuple(_option(a) for a in child._actions if a.option_strings)
        yield Command(path + name, texts[name], flags, _words(child))
        yield from _below(child, f"{path}{name} ")


def _first(tree: list[Command]) -> list[Command]:
    """Those that are verbs of no other."""
    return [command for command in tree if " " not in command.name]


def _option(action: argparse.Action) -> Option:
    takes = "" if action.nargs == 0 else str(action.metavar or action.dest)
    return Option(
        tuple(action.option_strings), takes, action.nargs == "?", (action.help or "").split(";")[0]
    )


def _words(of: argparse.ArgumentParser) -> tuple[str, ...] | str:
    positional = [a for a in of._actions if not a.option_strings]
    if any(a.dest == "argv" for a in positional):
        return "command"
    if any(a.dest in ("name", "several", "prefix") for a in positional):
        return "names"
    chosen = [a for a in positional if a.choices]
    return tuple(chosen[0].choices or ()) if chosen else "none"


def _value_flags(command: Command) -> list[str]:
    """The options whose value is the next word."""
    return [
        f
        for option in command.options
        if option.takes and not option.optional
        for f in option.flags
    ]


# -- bash ------------------------------------------------------------------------------------------

BASH = r"""# bash completion for holdfast. Load it with: source <(holdfast completion bash)
_holdfast_names() {
    local name
    while IFS= read -r name; do
        [[ $name == "$cur"* ]] && COMPREPLY+=("$(printf %q "$name")")
    done < <(holdfast $listed --names "${url[@]}" 2>/dev/null)
}

_holdfast() {
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
    local command=${COMP_WORDS[1]} flags= values= words= named= at begin=2 listed=ls
    local -a url=()
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "@COMMANDS@ --help --version" -- "$cur"))
        return
    fi
    if [[ $command == queue || $command == guard ]] && ((COMP_CWORD > 2)); then
        listed="$command ls" command="$command ${COMP_WORDS[2]}" begin=3
    fi
    case $command in
@CASES@
    *) return ;;
    esac
    for ((at = begin; at < COMP_CWORD; at++)); do
        case ${COMP_WORDS[at]} in
        --url) url=(--url "${COMP_WORDS[at+1]}") && ((at++)) ;;
        --) named=$at && break ;;
        -*) [[ " $values " == *" ${COMP_WORDS[at]} "* ]] && ((at++)) ;;
        *) [[ -n $named ]] && break || named=$at ;;
        esac
    done
    if [[ $words == command && -n $named && at -lt COMP_CWORD ]]; then
        # The guarded command completes as it would on its own.
        [[ ${COMP_WORDS[at]} == -- ]] && ((at++))
        if declare -F _command_offset >/dev/null; then
            _command_offset "$at"
        elif ((COMP_CWORD == at)); then
            COMPREPLY=($(compgen -c -- "$cur"))
        else
            COMPREPLY=($(compgen -f -- "$cur"))
        fi
    elif [[ " $values " == *" $before "* ]]; then
        [[ $before == --out ]] && COMPREPLY=($(compgen -d -- "$cur"))
    elif [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
    elif [[ $words == command && -n $named ]]; then
        COMPREPLY=($(compgen -c -- "$cur"))
    elif [[ -z $named ]]; then
        case $words in
        names | command) _holdfast_names ;;
        none) ;;
        *) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
        esac
    fi
}
complete -F _holdfast holdfast
"""


def bash(tree: list[Command]) -> Iterator[str]:
    """The script for bash, 3.2 and later."""
    cases = []
    for command in tree:
        flags = " ".join(flag for option in command.options for flag in option.flags)
        words = command.words if isinstance(command.words, str) else " ".join(command.words)
        cases.append(
            f"    {_quoted(command.name)}) flags='{flags}' "
            f"values='{' '.join(_value_flags(command))}' words='{words}' ;;"
        )
    names = " ".join(command.name for command in _first(tree))
    yield BASH.replace("@COMMANDS@", names).replace("@CASES@", "\n".join(cases)).rstrip()


# -- zsh -------------------------------------------------------------------------------------------

ZSH_HEAD = r"""#compdef holdfast
# zsh completion for holdfast.
_holdfast_names() {
    local -a names url
    local at=${words[(I)--url]}
    (( at )) && url=(--url ${(Q)words[at+1]})
    names=(${(f)"$(holdfast $listed --names $url 2>/dev/null)"})
    compadd -a names
}

_holdfast() {
    local curcontext=$curcontext state line
    local -a listed=(ls)
    typeset -A opt_args
    if (( CURRENT == 2 )); then
        local -a commands=(
"""
ZSH_TAIL = r"""    esac
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _holdfast "$@"
else
    compdef _holdfast holdfast
fi
"""
ZSH_WORDS = {
    "names": " '1:name:_holdfast_names'",
    "command": " '1:name:_holdfast_names' '(-)*:: :_normal'",
    "none": "",
}


def zsh(tree: list[Command]) -> Iterator[str]:
    """The script for zsh."""
    yield ZSH_HEAD.rstrip("\n")
    for command in _first(tree):
        yield f"            {_quoted(f'{command.name}:{command.text}')}"
    yield "        )"
    yield "        _describe command commands"
    yield "        return"
    yield "    fi"
    yield "    local command=$words[2]"
    yield "    shift words; (( CURRENT-- ))"
    yield "    if [[ $command == (queue|guard) ]] && (( CURRENT > 2 )); then"
    yield '        listed=($command ls) command="$command $words[2]"'
    yield "        shift words; (( CURRENT-- ))"
    yield "    fi"
    yield "    case $command in"
    for command in tree:
        specs = " ".join(_zsh_option(option) for option in command.options)
        if isinstance(command.words, str):
            words = ZSH_WORDS[command.words]
        else:
            words = f" '1:what:({' '.join(command.words)})'"
        yield f"    {_quoted(command.name)}) _arguments -s -S {specs}{words} ;;"
    yield ZSH_TAIL.rstrip()


def _zsh_option(option: Option) -> str:
    text = option.text.replace("[", "(").replace("]", ")").replace(":", " ")
    value = f"{'::' if option.optional else ':'}{option.takes}:" if option.takes else ""
    if option.takes == "DIR":
        value += "_files -/"
    together = " ".join(option.flags)
    return " ".join(_quoted(f"({together}){flag}[{text}]{value}") for flag in option.flags)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# -- fish ------------------------------------------------------------------------------------------

FISH = r"""# fish completion for holdfast.
function __holdfast_names
    set -l at (contains -i -- --url (commandline -opc))
    set -l url
    test -n "$at"; and set url --url (commandline -opc)[(math $at + 1)]
    holdfast $argv ls --names $url 2>/dev/null
end
complete -c holdfast -f
complete -c holdfast -n __fish_use_subcommand -l version -d 'show the version'
"""


def fish(tree: list[Command]) -> Iterator[str]:
    """The script for fish."""
    yield FISH.rstrip()
    for command in _first(tree):
        yield (
            f"complete -c holdfast -n __fish_use_subcommand -a {command.name} "
            f"-d {_quoted(command.text)}"
        )
    for command in tree:
        when = f"complete -c holdfast -n '{_fish_when(command, tree)}'"
        first, _, verb = command.name.partition(" ")
        names = f"(__holdfast_names {first})" if verb else "(__holdfast_names)"
        for option in command.options:
            flags = " ".join(
                f"-l {f[2:]}" if f[:2] == "--" else f"-s {f[1:]}" for f in option.flags
            )
            needs = " -r" if option.takes and not option.optional else ""
            yield f"{when} {flags}{needs} -d {_quoted(option.text)}"
        if command.words == "command":
            yield f"{when} -a '{names}'"
            yield f"{when} -a '(__fish_complete_subcommand)'"
        elif command.words == "names":
            yield f"{when} -a '{names}'"
        elif command.words != "none":
            yield f"{when} -a {_quoted(' '.join(command.words))}"


def _fish_when(command: Command, tree: list[Command]) -> str:
    """The condition under which a command is what stands on the line."""
    first, _, verb = command.name.partition(" ")
    seen = f"__fish_seen_subcommand_from {first}"
    if verb:
        return f"{seen}; and __fish_seen_subcommand_from {verb}"
    verbs = [name for one in tree for name in [one.name.partition(" ")[2]] if name]
    if any(one.name.startswith(f"{first} ") for one in tree):
        return f"{seen}; and not __fish_seen_subcommand_from {' '.join(verbs)}"
    others = sorted({one.name.partition(" ")[0] for one in tree if one.name.endswith(f" {first}")})
    return f"{seen}; and not __fish_seen_subcommand_from {' '.join(others)}" if others else seen
