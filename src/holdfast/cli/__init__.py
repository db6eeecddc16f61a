"""The ``holdfast`` command: locks around commands, jobs in queues, and views of a store.

``main`` prints every error as one line on stderr and returns an exit status of ``codes``. Each
command has a separate module, which is imported only when the command is called.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import ConfigError, HoldfastError
from . import codes
from .text import say

if TYPE_CHECKING:
    import argparse

__all__ = ["main", "parser"]


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status.

    The garbage collector is off, because collections take 4 ms of the start-up and most commands
    make little garbage. Commands that run for a long time turn it on again.
    """
    gc.disable()
    # The commands print their own messages; the library's warnings would only repeat them.
    logging.getLogger("holdfast").addHandler(logging.NullHandler())
    alone = words is None  # True: this process runs only the command; else other code called main
    if alone:
        _stand_in()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _main(sys.argv[1:] if words is None else list(words), alone)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt as end:
        return codes.SIGNALLED + getattr(end, "number", 2)
    except Exception as failure:
        if isinstance(failure, OSError) and not isinstance(failure, HoldfastError):
            # The rest of the output can't be written. At exit the interpreter tries again: it then
            # writes to /dev/null, and prints no error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(failure, BrokenPipeError):
            return codes.SIGNALLED + 13  # SIGPIPE: the reader of our output has ended
        return codes.explain(failure)


def parser() -> argparse.ArgumentParser:
    """Return the tree of commands and options."""
    from .tree import parser

    return parser()


def _main(words: list[str], alone: bool) -> int:
    from . import tree

    if not words:
        tree.parser().print_help(sys.stderr)
        return codes.USAGE
    if words[0] == "_complete":  # called by the stubs of ``holdfast completion``
        from .completion import complete

        return complete(words[1:])
    try:
        options = tree.parse(words)
    except tree.Usage as wrong:
        say(f"{wrong} (see {wrong.command} --help)")
        return codes.USAGE
    except SystemExit:  # --help, --version
        return 0
    from . import origin

    origin.no_name(options)
    origin.required(options)
    if alone:
        origin.shared(options)
    return _call(options)


def _stand_in() -> None:
    """Open a substitute for each standard stream that was closed when the process started.

    A read or write of a substitute raises the system's error. The substitute occupies the number of
    the descriptor, so that no file opened later gets this number.
    """
    ways = (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))
    for name, way in ways:
        if getattr(sys, name) is None:  # open() uses the free number; children don't inherit it
            fd = os.open(os.devnull, way)
            kind = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(fd, kind, encoding="utf-8", closefd=False))


def _refuse(options: argparse.Namespace) -> None:
    """Refuse the commands that start processes: these need a POSIX system."""
    words = f"{options.command} {options.verb}" if options.command == "queue" else options.command
    if words in ("run", "demo", "queue work"):
        raise ConfigError(
            f"`holdfast {words}` needs a POSIX system, because it starts and stops processes (on "
            "macOS, Python 3.13 or later); the other commands, Client and AsyncClient work here"
        )


def _call(options: argparse.Namespace) -> int:
    """Import the module of the command, and call the command."""
    if not hasattr(os, "fork") or not hasattr(os, "waitid"):
        _refuse(options)
    if options.command == "demo":
        from .demo import demo

        return demo(options)
    return _of(options.command)(options)


def _of(command: str) -> Callable[[argparse.Namespace], int]:
    """Return the function that carries out a command."""
    if command == "run":
        from .run import run as call
    elif command == "completion":
        from .completion import completion as call
    elif command == "break":
        from .break_ import break_ as call
    elif command == "doctor":
        from .doctor import doctor as call
    elif command == "purge":
        from .purge import purge as call
    elif command == "schema":
        from .schema import schema as call
    elif command == "queue":
        from .queue import queue as call
    elif command == "guard":
        from .guard import guard as call
    elif command == "show":
        from .look import show as call
    elif command == "mcp":
        from .mcp import mcp as call
    elif command == "ls":
        from .look import ls as call
    else:
        from .across import across as call
    return call
