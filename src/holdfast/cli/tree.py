"""The tree of commands and options. Help, completion and the check of docs/cli.md use it."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from ..core import checks
from ..core.misnamed import did_you_mean
from ..url import scrubbed
from .across import tree as across
from .guard import tree as guard
from .mcp import tree as mcp
from .options import busy, checked, duration, kinds, name, required, url, waiting, whole
from .queue import tree as queue

Actions = Iterable[argparse.Action]

EXITS = """\
exit status:
  the status of the command; 128+N if signal N ended it
  75 busy (see -E)   76 lock lost, command stopped   69 store unreachable
  64 usage   78 configuration   126 can't be executed   127 not found
"""
RUN = """\
examples:
  holdfast run backup -- ./backup.sh --full         wait for the lock, then run
  holdfast run -n -E 0 backup -- ./backup.sh        skip if it is running somewhere
  holdfast run -n --min-hold 50m stat -- ./stat.sh  each hour by cron; 1h can skip a run
  holdfast run -w 10m report -c 'make report | mail team'
  holdfast run --semaphore 4 gpu -- python train.py
  holdfast run -s catalog -- ./read.sh              a reader, at the same time as others
  holdfast run -x catalog -- ./rebuild.sh           a writer, alone
"""


OTHERS = "For queues and refresh guards: `holdfast queue {0}`, `holdfast guard {0}`."


class Usage(Exception):
    """The command line is invalid; the message explains what is valid."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message)
        self.command = command


class Formatter(argparse.RawDescriptionHelpFormatter):
    """argparse's usual layout of help, in the width of the terminal.

    argparse makes a formatter for each argument, which imports ``shutil`` if it has no width.
    """

    def __init__(self, prog: str, **options: Any) -> None:
        options.setdefault("width", _width())
        super().__init__(prog, **options)


def _width() -> int:
    """Return the number of columns for help: that of the terminal, but 38 to 98."""
    try:
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        columns = 80
    return max(40, min(columns or 80, 100) - 2)


class Parser(argparse.ArgumentParser):
    """A parser without abbreviated options; an error raises `Usage` with a message of one line."""

    def __init__(self, **options: Any) -> None:
        plain = {"formatter_class": Formatter, "allow_abbrev": False}
        super().__init__(**{**plain, **options})
        # After an option, argparse takes `-5` as its value. With this pattern it also takes `-5s`
        # as a value, so that the check of the value prints the error.
        self._negative_number_matcher = re.compile(r"-[0-9.]+[a-z]*$")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or the version; raise errors of the stream, which argparse ignores."""
        if message:
            (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        """Raise `Usage`; argparse's own method exits."""
        raise Usage(scrubbed(message), self.prog)


def parser(only: str = "") -> argparse.ArgumentParser:
    """Return the parser of all commands, or, to save time, of the command ``only``."""
    from .. import __version__

    top = Parser(
        prog="holdfast",
        description="Locks that hold across processes and machines.",
        epilog="`holdfast COMMAND --help` prints the options of a command.",
    )
    top.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = top.add_subparsers(prog="holdfast", dest="command", metavar="COMMAND", required=True)
    for command, (fill, text) in COMMANDS.items():
        if only in ("", command):
            fill(commands.add_parser(command, help=text))
    return top


def _run(run: argparse.ArgumentParser) -> None:
    run.usage = "holdfast run [options] NAME [--] COMMAND [ARGUMENT ...]"
    run.description = "Run a command while holding the lock NAME. Stop it if the lock is lost."
    run.epilog = RUN + "\n" + EXITS
    name(run, "name of the lock")
    run.add_argument("argv", metavar="COMMAND", nargs="*", help="command to run, without a shell")
    waiting(run)
    kinds(run)
    lease = run.add_argument_group("the lease")
    lease.add_argument(
        "--ttl", metavar="DUR", type=duration(0.01, 86_400.0),
        help="lease length, renewed every third of it while the command runs (default 30s)",
    )  # fmt: skip
    lease.add_argument(
        "--min-hold", dest="min_hold", metavar="DUR", type=duration(0.0, 86_400.0),
        default=0.0, help="minimum time to keep the name taken, even if the command ends earlier; "
        "for cron, less than the period, or a run can be skipped",
    )  # fmt: skip
    lease.add_argument(
        "--max-hold", metavar="DUR", type=duration(0.1, 1e9),
        help="maximum time to hold the lock; the command is stopped within it",
    )  # fmt: skip
    lease.add_argument(
        "--kill-after", metavar="DUR", type=duration(0.0, 3600.0), default=10.0,
        help="maximum time from TERM to KILL when the command must stop; less if the lease ends "
        "earlier (default 10s)",
    )  # fmt: skip
    other = run.add_argument_group("other options")
    other.add_argument(
        "-c", "--command", dest="script", metavar="STRING", help="run STRING with $SHELL -c"
    )
    busy(other)
    other.add_argument("--label", metavar="TEXT", type=checked(checks.owner), help=LABEL)
    required(other)
    url(other)


LABEL = "last part of the owner that others see (default: name of the command)"


def _ls(ls: argparse.ArgumentParser) -> None:
    ls.description = "List the names that are held or waited for."
    ls.epilog = OTHERS.format("ls")
    ls.add_argument(
        "prefix", metavar="PREFIX", nargs="?", default="", help="only names that begin with PREFIX"
    )
    ls.add_argument("--all", action="store_true", help="one line for each holder and waiter")
    ls.add_argument(
        "--watch", metavar="SECS", nargs="?", type=duration(0.1, 3600.0), const=1.0,
        help="repeat every SECS seconds until Ctrl-C (default 1)",
    )  # fmt: skip
    form = ls.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON with all fields")
    form.add_argument("--names", action="store_true", help="print only the names, one per line")
    url(ls)


def _show(show: argparse.ArgumentParser) -> None:
    show.description = "Show the holders and the waiters of a name."
    show.epilog = OTHERS.format("show NAME")
    name(show)
    show.add_argument("--json", action="store_true", help="print JSON")
    url(show)


def _break(breaker: argparse.ArgumentParser) -> None:
    breaker.description = (
        "End the hold of another owner, if its fence has not changed. The next waiter gets the "
        "lock immediately, with a greater fence. The former holder notices at its next renewal; "
        "until then only the fence stops its writes."
    )
    name(breaker)
    breaker.add_argument(
        "--fence", metavar="N", type=checked(whole), help="fence of the hold, as `show` prints it"
    )
    breaker.add_argument("-y", "--yes", action="store_true", help="don't ask for confirmation")
    breaker.add_argument("--reason", metavar="TEXT", default="", help="reason for the system log")
    url(breaker)


def _doctor(doctor: argparse.ArgumentParser) -> None:
    doctor.description = "Check the store, and print the problems and their remedies."
    doctor.epilog = "exit status: 0 if the store can be used, 1 if a check fails."
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument(
        "--mend", action="store_true", help="first repair damaged queues of sqlite://"
    )
    url(doctor)


def _purge(purge: argparse.ArgumentParser) -> None:
    purge.description = (
        "Remove the rows of row locks (holdfast.sql.row_lock) that were not used for a time. "
        "Locked rows are skipped."
    )
    purge.add_argument(
        "database", metavar="URL", nargs="?",
        help="postgresql://, mysql:// or mariadb:// (default $HOLDFAST_URL)",
    )  # fmt: skip
    purge.add_argument(
        "--older-than", metavar="DUR", required=True, type=duration(3600.0, 3.15e9),
        help="minimum time since the last use, such as 30d; at least 1h",
    )  # fmt: skip
    purge.add_argument("--kind", metavar="KIND", help="only names that begin with KIND: bank:")
    purge.add_argument(
        "--table", metavar="TABLE", default="holdfast_rows",
        help="table with the rows (default holdfast_rows)",
    )  # fmt: skip
    purge.add_argument(
        "--batch", metavar="N", type=checked(whole), default=500,
        help="rows per transaction (default 500)",
    )  # fmt: skip
    purge.add_argument("-q", "--quiet", action="store_true", help="don't print the number of rows")


def _schema(schema: argparse.ArgumentParser) -> None:
    schema.description = (
        "Print the statements that create the tables of a store, or execute them. Existing "
        "objects stay unchanged."
    )
    schema.epilog = "exit status: 0 if the statements were printed or executed."
    schema.add_argument(
        "what", metavar="postgres|mysql", nargs="?", choices=["mysql", "postgres"],
        help="database of the store",
    )  # fmt: skip
    schema.add_argument("--apply", action="store_true", help="execute, as the user in the URL")
    url(schema)


def _demo(demo: argparse.ArgumentParser) -> None:
    demo.description = "Show nine processes that contend for one lock, and a killed holder."
    demo.add_argument(
        "--keep",
        action="store_true",
        help="keep the working folder, with the lock store and the ledger",
    )


def _completion(completion: argparse.ArgumentParser) -> None:
    completion.description = "Print a completion script."
    completion.epilog = """\
bash:  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
zsh:   holdfast completion zsh > ~/.zfunc/_holdfast     (with ~/.zfunc in fpath)
fish:  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
"""
    completion.add_argument("shell", choices=["bash", "zsh", "fish"], help="name of the shell")


COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "run": (_run, "run a command while holding a lock"),
    **across.COMMANDS,
    "ls": (_ls, "list the names that are held or waited for"),
    "show": (_show, "show the holders and the waiters of a name"),
    "break": (_break, "end the hold of another owner"),
    "queue": (queue.commands, "put jobs into serial queues, run them, inspect and repair them"),
    "guard": (guard.commands, "inspect refresh guards, and invalidate values"),
    "mcp": (mcp.command, "serve locks to a coding agent, over the Model Context Protocol"),
    "doctor": (_doctor, "check the store, and print problems and remedies"),
    "purge": (_purge, "remove unused rows of row locks"),
    "schema": (_schema, "print or create the tables of a store in a database"),
    "demo": (_demo, "watch nine processes contend for one lock"),
    "completion": (_completion, "print a completion script for a shell"),
}


# -- from words to options --------------------------------------------------------------------


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line; raise ``Usage`` if the command line is invalid."""
    first = words[0] if words else ""
    if first and not first.startswith("-") and first not in COMMANDS:
        hint = did_you_mean(first, COMMANDS)
        raise Usage(f"there is no command {first!r}; {hint}", "holdfast")
    of, words, path = parser(first if first in COMMANDS else ""), list(words), 0
    top = of
    while (below := children(of)) and words[path:] and not words[path].startswith("-"):
        if words[path] not in below:
            hint = did_you_mean(words[path], below)
            raise Usage(f"there is no command {words[path]!r}; {hint}", of.prog)
        of, path = below[words[path]], path + 1
    if below and words[path:] and words[path].partition("=")[0] == "--url":
        what = "COMMAND" if of is top else "VERB"
        raise Usage(f"--url comes after the command: {of.prog} {what} --url URL", of.prog)
    command: list[str] = []
    runs = any(action.dest == "argv" for action in of._actions)
    if runs:
        own, command = split(words[path - 1 :], of)
        words[path - 1 :] = own
    elif any(action.nargs in ("*", "+") for action in of._actions):
        words[path:] = _options_first(words[path:], of)
    options, unknown = top.parse_known_args(words)
    if unknown[:1] == ["refunds"] and first == "demo":
        raise Usage("`refunds` is in a clone of the project: ./dev demo refunds", of.prog)
    # A lock may have any name. But a name that equals an option is probably a mistake.
    unknown += [one for one in getattr(options, "several", ()) if one in of._option_string_actions]
    if unknown:
        raise Usage(_unknown(unknown[0], of), of.prog)
    if runs:
        options.argv = command
        _check_run(options, of.prog)
    return options


def _check_run(options: argparse.Namespace, path: str) -> None:
    """Check the rules of ``run`` and ``queue work`` that argparse can't check."""
    if bool(options.script) == bool(options.argv):
        raise Usage("give either a command after the name, or -c STRING", path)
    if options.command != "run":
        return
    if options.min_hold and (options.shared or options.exclusive or options.semaphore):
        raise Usage("--min-hold works only with a plain lock", path)


def children(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the subcommands of a parser, by name."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def split(words: list[str], run: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """Split a command line into the words for holdfast, and the command to run with its arguments.

    The command begins after ``--``, or at the first word after the name that isn't an option.
    holdfast doesn't read the options of the command.

    >>> split("run -nw 5 x -q ls -l -- y".split(), children(parser())["run"])
    (['run', '-nw', '5', 'x', '-q'], ['ls', '-l', '--', 'y'])
    """
    takes = value_flags(run)
    named, at = False, 1
    while at < len(words):
        word = words[at]
        if word == "--" and not named:  # this -- allows a name that begins with -
            if not words[at + 1 : at + 2] or not words[at + 1].startswith("-"):
                raise Usage("give a name before --", run.prog)
            return words[: at + 2], _after_dashes(words[at + 2 :])
        if word == "--" or (named and (word == "-" or not word.startswith("-"))):
            return words[:at], _after_dashes(words[at:])
        if word.startswith("-") and word != "-":
            at += words_of(word, takes)
        else:
            named, at = True, at + 1
    return words, []


def _options_first(words: list[str], of: argparse.ArgumentParser) -> list[str]:
    """Return the words, options first: else argparse can match an argument ``*`` to no words."""
    takes, at = value_flags(of), 0
    front: list[str] = []
    rest: list[str] = []
    while at < len(words) and words[at] != "--":
        long = words_of(words[at], takes) if words[at][:1] == "-" and words[at] != "-" else 0
        (front if long else rest).extend(words[at : at + max(long, 1)])
        at += max(long, 1)
    return front + rest + words[at:]


def value_flags(of: argparse.ArgumentParser) -> set[str]:
    """Return the options of a parser that take a value."""
    return {flag for action in of._actions if action.nargs != 0 for flag in action.option_strings}


def words_of(word: str, takes: set[str]) -> int:
    """Return the number of words that an option takes: 2 if its value is the next word, else 1."""
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
        from .origin import secret

        what = "the URL of a store with its password" if secret(word) else repr(word)
        named = "://" in word and "--url" in value_flags(of)
        return f"{what} is one argument too many" + "; name a store by --url" * named
    flag = word.partition("=")[0]
    known = [name for action in of._actions for name in action.option_strings]
    if flag in known:  # argparse reads everything after -- as arguments
        return f"{flag} is an option, and options come before --"
    return f"there is no option {flag}; {did_you_mean(flag, known)}"
