"""Completion: a script (stub) for each shell, and ``holdfast _complete``, which the stubs call.

``_complete`` reads the tree of options, so a new option needs no change here. It gets the names of
locks, queues and guards from ``ls --names``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import main
from .tree import COMMANDS, children, parser, value_flags, words_of

BASH = r"""# bash completion for holdfast. Load it with: source <(holdfast completion bash)
_holdfast() {
    local cur=${COMP_WORDS[COMP_CWORD]} kind= at= word
    COMPREPLY=()
    {
        read -r kind at
        while IFS=$'\t' read -r word _; do
            [[ $word == "$cur"* ]] && COMPREPLY+=("$(printf %q "$word")")
        done
    } < <(holdfast _complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ $kind == command ]] && declare -F _command_offset >/dev/null; then
        _command_offset "$at"
    elif [[ $kind == command && $at == "$COMP_CWORD" ]]; then
        COMPREPLY=($(compgen -c -- "$cur"))
    elif [[ $kind == command || $kind == files ]]; then
        COMPREPLY=($(compgen -f -- "$cur"))
    fi
}
complete -F _holdfast holdfast
"""
ZSH = r"""#compdef holdfast
# zsh completion for holdfast.
_holdfast() {
    local -a before=("${(@Q)words[2,CURRENT-1]}")
    local -a found=("${(@f)$(holdfast _complete "${(@)before}" "${(Q)PREFIX}" 2>/dev/null)}")
    local kind=$found[1] at=${found[1]#* }
    local -a names=("${(@)found[2,-1]%%$'\t'*}") texts=("${(@)found[2,-1]//$'\t'/  -- }")
    case $kind in
    command*) shift $at words; (( CURRENT -= at )); _normal ;;
    files) _files ;;
    *) compadd -l -d texts -a names ;;
    esac
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _holdfast "$@"
else
    compdef _holdfast holdfast
fi
"""
FISH = r"""# fish completion for holdfast.
function __holdfast_complete
    set -l words (commandline -opc)
    set -l found (holdfast _complete $words[2..] (commandline -ct) 2>/dev/null)
    set -l kind (string split ' ' -- $found[1])
    switch "$kind[1]"
        case command
            set -l own (string escape -- $words[(math $kind[2] + 1)..])
            complete -C (string join ' ' -- $own (commandline -ct))
        case files
            __fish_complete_path (commandline -ct)
        case '*'
            string join \n -- $found[2..]
    end
end
complete -c holdfast -f -a '(__holdfast_complete)'
"""
STUBS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def completion(options: argparse.Namespace) -> int:
    """Print the stub for one shell."""
    print(STUBS[options.shell], end="")
    return 0


def complete(words: Sequence[str]) -> int:
    """Print the candidates for the last word: a kind on the first line, then one word on each line.

    A tab and the meaning can follow a word. The kinds are ``words``, ``files`` and ``command N``.
    ``command N`` means that word N begins the command to run, which the shell completes.
    """
    *before, last = words or [""]
    of, at = parser(before[0] if before and before[0] in COMMANDS else ""), 0
    while before[at:] and before[at] in children(of):
        of, at = children(of)[before[at]], at + 1
    dashes = "--" in before[at:]
    due, at, url = _due(before, at, of)
    option = last[:1] == "-" and not dashes
    kind, names = "words", False
    found: dict[str, str | None] = {}
    if due and due.dest == "argv" and (at < len(before) or not option):
        kind = f"command {at + 1}"
    elif option and not (due and due.option_strings and due.nargs != "?"):
        for action in of._actions:
            means = (action.help or "").partition(";")[0]
            found.update(dict.fromkeys(action.option_strings, means))
    elif isinstance(due, argparse._SubParsersAction):
        found = {choice.dest: choice.help for choice in due._choices_actions}
    elif due and due.choices:
        found = dict.fromkeys(due.choices)
    elif due and due.metavar in ("FILE", "DIR"):
        kind = "files"
    else:
        names = due is not None and due.dest in ("name", "several", "prefix")
    print(kind)
    for word, text in found.items():
        print(f"{word}\t{text}" if text else word)
    if not names:
        return 0
    about = [before[0]] if before[0] in ("queue", "guard") else []
    return main([*about, "ls", "--names", *url])


def _due(
    words: Sequence[str], at: int, of: argparse.ArgumentParser
) -> tuple[argparse.Action | None, int, Sequence[str]]:
    """Return the argument that is expected after ``words``; the first ``at`` words are commands.

    Also return the words of ``--url``, and the index at which the command to run begins, if this
    command is the expected argument.
    """
    takes, dashes, url = value_flags(of), False, words[:0]
    wanted = [action for action in of._actions if not action.option_strings]
    while at < len(words):
        word, size = words[at], 1
        if word == "--":
            dashes = True
        elif word[:1] == "-" and word != "-" and not dashes:
            size = words_of(word, takes)
            if at + size > len(words):
                flag = word if word[:2] == "--" else f"-{word[-1]}"
                return of._option_string_actions[flag], at, url
            if word.partition("=")[0] == "--url":
                url = words[at : at + size]
        elif wanted and wanted[0].dest == "argv":
            break
        elif wanted and wanted[0].nargs not in ("*", "+"):
            del wanted[0]
        at += size
    return (wanted[0] if wanted else None), at, url
