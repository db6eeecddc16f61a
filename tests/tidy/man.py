"""The manual page ``holdfast(1)``, made from the tree of commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from holdfast import cli
from tests.tidy.test_commands import commands

_WAYS = """\
.SH NAME
holdfast \\- locks, serial queues and refresh guards across processes and machines
.SH SYNOPSIS
.B holdfast
.I COMMAND
[options] ...
.SH DESCRIPTION
Each command takes \\fB\\-\\-url\\fR, or the store of \\fB$HOLDFAST_URL\\fR;
without both it uses this user's local file, which excludes no process on other hosts.
Durations are written 90 (seconds), 1.5s, 250ms, 10m, 2h, 1d.
"""
_END = """\
.SH ENVIRONMENT
.TP
.B HOLDFAST_URL
The store, where \\-\\-url isn't given.
.TP
.B HOLDFAST_PASS_URL
Set: commands get HOLDFAST_URL also if it contains a password.
.TP
.B NO_COLOR
No colours, if it is set and not empty.
.SH EXIT STATUS
.TP
.B 0
Done. \\fBholdfast run\\fR ends with the status of its command.
"""


def roff(text: str) -> str:
    r"""Return the text, escaped so that roff prints it unchanged.

    >>> roff("--url 'x'\n.dot")
    "\\-\\-url 'x'\n\\&.dot"
    """
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^(?=[.'])", r"\\&", safe)


def _usage(of: argparse.ArgumentParser, command: str) -> str:
    """Return the synopsis on one line, whatever the width of the terminal is."""
    if of.usage:
        return of.usage
    words = [command, "[options]"]
    for one in of._actions:
        if not one.option_strings and not isinstance(one, argparse._SubParsersAction):
            many = {"*": "[{} ...]", "+": "{} [{} ...]", "?": "[{}]"}.get(str(one.nargs), "{}")
            words.append(many.replace("{}", _metavar(one)))
    return " ".join(words)


def _metavar(one: argparse.Action) -> str:
    return str(one.metavar or "|".join(map(str, one.choices or [one.dest.upper()])))


def _options(of: argparse.ArgumentParser) -> Iterator[str]:
    for one in of._actions:
        if one.help == argparse.SUPPRESS or isinstance(one, argparse._HelpAction):
            continue
        value = f" \\fI{roff(_metavar(one))}\\fR" if one.nargs != 0 and one.option_strings else ""
        names = [f"\\fB{roff(flag)}\\fR{value}" for flag in one.option_strings]
        yield ".TP"
        yield ", ".join(names) or f"\\fI{roff(_metavar(one))}\\fR"
        yield roff((one.help or "").replace("%%", "%"))


def manual() -> str:
    """Return the page as roff."""
    lines = ['.TH HOLDFAST 1 "" "holdfast" "User Commands"', _WAYS.rstrip()]
    for name, of in commands(cli.parser()):
        lines += [f".SH {roff(name.upper())}", ".PP", f".B {roff(_usage(of, name))}"]
        lines += [".PP", roff(of.description or ""), *_options(of)]
        if of.epilog:
            lines += [".PP", ".nf", roff(of.epilog.rstrip()), ".fi"]
    return "\n".join([*lines, _END.rstrip(), *_statuses()]) + "\n"


def _statuses() -> Iterator[str]:
    """Return the exit statuses of ``codes``, with the comment above each."""
    from tests.tidy.tree import SRC

    source = (SRC / "cli" / "codes.py").read_text(encoding="utf-8")
    for text, number in re.findall(r"^#: (.+)\n[A-Z_]+ = (\d+)$", source, re.MULTILINE):
        yield from (".TP", f".B {number}", roff(text))


if __name__ == "__main__":
    print(manual(), end="")
