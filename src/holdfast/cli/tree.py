"""The tree of commands and options. Help, completion and the check of docs/cli.md come from it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from ..core import checks
from ..errors import ConfigError
from ..url import did_you_mean
from . import codes
from .text import seconds

Actions = Iterable[argparse.Action]

EXITS = """\
exit status:
  the command's own; 128+N if signal N ended it
  75 busy (see -E)   76 lock lost, command stopped   69 store unreachable
  64 usage   78 configuration   126 can't be executed   127 not found
"""
RUN = """\
examples:
  holdfast run backup -- ./backup.sh --full         wait for the lock, then run
  holdfast run -n -E 0 backup -- ./backup.sh        skip if it is running somewhere
  holdfast run -w 10m --every 1h report -c 'make report | mail team'
  holdfast run --semaphore 4 gpu -- python train.py
  holdfast run -s catalog -- ./read.sh              with others who read, never beside
  holdfast run -x catalog -- ./rebuild.sh           one who writes
"""


class Usage(Exception):
    """The command line makes no sense; the message says what would."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message)
        self.command = command


class Formatter(argparse.RawDescriptionHelpFormatter):
    """The usual layout, in the width of the terminal.

    argparse makes one for every argument that is added, and would import ``shutil`` for that.
    """

    def __init__(self, prog: str, **options: Any) -> None:
        options.setdefault("width", _width())
        super().__init__(prog, **options)


def _width() -> int:
    """Columns for help: those of the terminal, within what is pleasant to read."""
    try:
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        columns = 80
    return max(40, min(columns or 80, 100) - 2)


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations, whose mistakes are one line and one exit code."""

    def __init__(self, **options: Any) -> None:
        plain = {"formatter_class": Formatter, "allow_abbrev": False}
        super().__init__(**{**plain, **options})

    def error(self, message: str) -> NoReturn:
        """Raise instead of leaving."""
        raise Usage(message, self.prog)


def parser(only: str = "") -> argparse.ArgumentParser:
    """The whole tree: ``holdfast`` and its commands; or, to save time, ``only`` one of them."""
    from .. import __version__

    top = Parser(
        prog="holdfast",
        description="Locks that hold across processes and machines.",
        epilog="`holdfast COMMAND --help` explains a command.",
    )
    top.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = top.add_subparsers(prog="holdfast", dest="command", metavar="COMMAND", required=True)
    for name, (fill, text) in COMMANDS.items():
        if only in ("", name):
            fill(commands.add_parser(name, help=text))
    return top


def _run(run: argparse.ArgumentParser) -> None:
    run.usage = "holdfast run [options] NAME [--] COMMAND [ARGUMENT ...]"
    run.description = "Run a command only while the lock NAME is held, and stop it if it is lost."
    run.epilog = RUN + "\n" + EXITS
    run.add_argument("name", metavar="NAME", type=checked(checks.name), help="what to lock")
    run.add_argument("argv", metavar="COMMAND", nargs="*", help="the command; no shell is involved")
    wait = run.add_argument_group("waiting").add_mutually_exclusive_group()
    wait.add_argument(
        "-n", "--nb", "--nonblock", dest="nonblock", action="store_true", help="don't wait if busy"
    )
    wait.add_argument(
        "-w", "--wait", "--timeout", dest="wait", metavar="DUR", type=duration(0.0, 1e9),
        help="wait at most this long (90, 1.5s, 10m, 2h); else for ever",
    )  # fmt: skip
    kind = run.add_argument_group("what to hold").add_mutually_exclusive_group()
    kind.add_argument("-s", "--shared", action="store_true", help="share it with others who say -s")
    kind.add_argument(
        "-x", "-e", "--exclusive", action="store_true",
        help="alone (that is the default), on a name that others share with -s",
    )  # fmt: skip
    kind.add_argument(
        "--semaphore", metavar="N", type=checked(whole), help="one of N permits of this name"
    )
    lease = run.add_argument_group("how long")
    lease.add_argument(
        "--ttl", metavar="DUR", type=duration(0.1, 86_400.0),
        help="length of the lease, renewed every third of it while the command runs",
    )  # fmt: skip
    lease.add_argument(
        "--min-hold", "--every", dest="min_hold", metavar="DUR", type=duration(0.0, 86_400.0),
        default=0.0, help="keep the name taken at least this long, even if the command is quicker",
    )  # fmt: skip
    lease.add_argument(
        "--max-hold", metavar="DUR", type=duration(0.1, 1e9), help="stop the command by then"
    )
    lease.add_argument(
        "--kill-after", metavar="DUR", type=duration(0.0, 3600.0), default=10.0,
        help="KILL this long after TERM when the lock is lost, and always before another can "
        "have it (10s)",
    )  # fmt: skip
    other = run.add_argument_group("and")
    other.add_argument(
        "-c", "--command", dest="script", metavar="STRING", help="run STRING in $SHELL -c"
    )
    other.add_argument(
        "-E", "--conflict-exit-code", dest="busy", metavar="N", type=checked(byte),
        default=codes.BUSY, help="exit status when busy (75)",
    )  # fmt: skip
    other.add_argument("-q", "--quiet", action="store_true", help="say nothing of waiting and busy")
    other.add_argument("--label", metavar="TEXT", type=checked(checks.owner), help=LABEL)
    _url(other)


LABEL = "last part of the owner that others see (the command's name)"


def _ls(ls: argparse.ArgumentParser) -> None:
    ls.description = "List the names that are held or waited for."
    ls.add_argument(
        "prefix", metavar="PREFIX", nargs="?", default="", help="only names that begin so"
    )
    ls.add_argument(
        "--all", action="store_true", help="every holder and waiter, not just the first"
    )
    ls.add_argument(
        "--watch", metavar="SECS", nargs="?", type=duration(0.1, 3600.0), const=1.0,
        help="again every so often, until Ctrl-C (1s)",
    )  # fmt: skip
    form = ls.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON, with all there is")
    form.add_argument("--names", action="store_true", help="the bare names, one per line")
    _url(ls)


def _show(show: argparse.ArgumentParser) -> None:
    show.description = "Show who holds a name, and the line of those who wait."
    show.add_argument("name", metavar="NAME", type=checked(checks.name), help="which name")
    show.add_argument("--json", action="store_true", help="as JSON")
    _url(show)


def _break(breaker: argparse.ArgumentParser) -> None:
    breaker.description = (
        "Take a lock away from its holder, if it still has the fence that was looked at. The next "
        "in line gets it at once, with a greater fence; the former holder is told at its next "
        "renewal, and until then only the fence stops it."
    )
    breaker.add_argument("name", metavar="NAME", type=checked(checks.name), help="which name")
    breaker.add_argument(
        "--fence", metavar="N", type=checked(whole), help="whose: the number that `show` tells"
    )
    breaker.add_argument("-y", "--yes", action="store_true", help="don't ask")
    breaker.add_argument("--reason", metavar="TEXT", default="", help="why, for the system log")
    _url(breaker)


def _doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.description = "Check the store, and say in words what is wrong and how to mend it."
    doctor.epilog = "exit status: 0 if it can be used, 1 if something fails."
    doctor.add_argument("--json", action="store_true", help="as JSON")
    _url(doctor)


def _demo(demo: argparse.ArgumentParser) -> None:
    from .demo import arguments

    demo.description = "Nine processes, one lock, a killed holder: watch it work."
    arguments(demo)


def _completion(completion: argparse.ArgumentParser) -> None:
    completion.description = "Print a completion script."
    completion.epilog = """\
bash:  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
zsh:   holdfast completion zsh > ~/.zfunc/_holdfast     (with ~/.zfunc in fpath)
fish:  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
"""
    completion.add_argument("shell", choices=["bash", "zsh", "fish"], help="for which shell")


def _url(group: Any) -> None:
    group.add_argument(
        "--url", metavar="URL", help="the store ($HOLDFAST_URL, else the embedded one)"
    )


COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "run": (_run, "run a command while holding a lock"),
    "ls": (_ls, "list the names that are held or waited for"),
    "show": (_show, "show who holds a name and who waits for it"),
    "break": (_break, "take a lock away from its holder"),
    "doctor": (_doctor, "say what is wrong with the store, and the remedy"),
    "demo": (_demo, "watch nine processes contend for one lock"),
    "completion": (_completion, "print a completion script for a shell"),
}


# -- what an option may be --------------------------------------------------------------------


def checked(check: Callable[[str], Any]) -> Callable[[str], Any]:
    """An argument that a check of the library must accept."""

    def read(text: str) -> Any:
        try:
            return check(text)
        except (ConfigError, ValueError) as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None

    return read


def duration(least: float, most: float) -> Callable[[str], float]:
    """An argument that is a span of time within limits, in seconds."""

    def read(text: str) -> float:
        try:
            value = seconds(text)
        except ValueError as wrong:
            raise argparse.ArgumentTypeError(str(wrong)) from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not from {least:g} to {most:g} seconds")
        return value

    return read


def whole(text: str) -> int:
    """A whole number from 1."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"{text!r} is no whole number from 1 on")
    return int(text)


def byte(text: str) -> int:
    """An exit status."""
    if not (text.isascii() and text.isdigit() and int(text) < 256):
        raise ValueError(f"{text!r} is no exit status from 0 to 255")
    return int(text)


# -- from words to options --------------------------------------------------------------------


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The options that a command line gives; ``Usage`` says what is wrong with it."""
    first = words[0] if words else ""
    if first and not first.startswith("-") and first not in COMMANDS:
        hint = did_you_mean(first, COMMANDS)
        raise Usage(f"there is no command {first!r}; {hint}", "holdfast")
    top = parser(first if first in COMMANDS else "")
    command: list[str] = []
    if first == "run":
        words, command = split(list(words), children(top)["run"])
    options, unknown = top.parse_known_args(words)
    if unknown:
        of = children(top).get(first, top)
        raise Usage(_unknown(unknown[0], of), f"holdfast {first}")
    if first == "run":
        options.argv = command
        _check_run(options)
    return options


def _check_run(options: argparse.Namespace) -> None:
    """What argparse can't say about `run`."""
    if bool(options.script) == bool(options.argv):
        raise Usage("give a command after the name, or -c STRING, and not both", "holdfast run")
    if options.min_hold and (options.shared or options.exclusive or options.semaphore):
        raise Usage("--min-hold goes with a plain lock alone", "holdfast run")


def children(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of the tree."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def split(words: list[str], run: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """``run``'s own words, and the command with its arguments.

    The command begins after ``--``, or with the first word after the name that is no option;
    its own options are never looked at.

    >>> split("run -nw 5 x -q ls -l -- y".split(), children(parser())["run"])
    (['run', '-nw', '5', 'x', '-q'], ['ls', '-l', '--', 'y'])
    """
    takes = {flag for action in run._actions if action.nargs != 0 for flag in action.option_strings}
    named, at = False, 1
    while at < len(words):
        word = words[at]
        if word == "--" and not named:  # it only says that the name is no option
            return words[: at + 2], _after_dashes(words[at + 2 :])
        if word == "--" or (named and (word == "-" or not word.startswith("-"))):
            return words[:at], _after_dashes(words[at:])
        if word.startswith("-") and word != "-":
            at += _words_of(word, takes)
        else:
            named, at = True, at + 1
    return words, []


def _words_of(word: str, takes: set[str]) -> int:
    """How many words an option is: two if its value is the next one."""
    if word.startswith("--"):
        return 2 if word in takes else 1
    for place, letter in enumerate(word[1:], 1):
        if "-" + letter in takes:
            return 2 if place == len(word) - 1 else 1
    return 1


def _after_dashes(words: list[str]) -> list[str]:
    return words[1:] if words[:1] == ["--"] else words


def _unknown(word: str, of: argparse.ArgumentParser) -> str:
    if not word.startswith("-"):
        return f"{word!r} is one argument too many"
    flag = word.partition("=")[0]
    known = [name for action in of._actions for name in action.option_strings]
    return f"there is no option {flag}; {did_you_mean(flag, known)}"
