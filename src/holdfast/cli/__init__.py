"""The command ``holdfast``: a lock around a command, jobs in queues, and a look at all there is.

``main`` turns every error into one line on stderr and an exit status of ``codes``. Each command
lives in a separate module, which is imported when it is called.
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
    """Do what a command line says; its exit status.

    The collector of garbage rests meanwhile: there is little, and its rounds take 4 ms of the
    start. Commands that run for a long time wake it.
    """
    gc.disable()
    # The commands say what matters by themselves; the library's warnings would say it again.
    logging.getLogger("holdfast").addHandler(logging.NullHandler())
    alone = words is None  # the process is the command; else our caller shares what is in memory
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
            # What is still buffered can't be written; the interpreter would try, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(failure, BrokenPipeError):
            return codes.SIGNALLED + 13  # whoever read our output has seen enough
        return codes.explain(failure)


def parser() -> argparse.ArgumentParser:
    """The tree of commands and options."""
    from .tree import parser

    return parser()


def _main(words: list[str], alone: bool) -> int:
    from . import tree

    if not words:
        tree.parser().print_help(sys.stderr)
        return codes.USAGE
    if words[0] == "_complete":  # the stubs of ``holdfast completion`` ask so
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
    """Put something in the place of each standard stream that was closed when we were started.

    What reads or writes there gets the system's error, and no file of ours gets the number.
    """
    ways = (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY))
    for name, way in ways:
        if getattr(sys, name) is None:  # the number is the lowest that is free; none inherits it
            fd = os.open(os.devnull, way)
            kind = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(fd, kind, encoding="utf-8", closefd=False))


def _refuse(options: argparse.Namespace) -> None:
    """Say which commands can't be had without POSIX, as they start processes."""
    words = f"{options.command} {options.verb}" if options.command == "queue" else options.command
    if words in ("run", "demo", "queue work"):
        raise ConfigError(
            f"`holdfast {words}` needs a POSIX system, as it starts and stops processes (on macOS, "
            "Python 3.13 or later); the other commands, and Client and AsyncClient, work here"
        )


def _call(options: argparse.Namespace) -> int:
    """Call the command, importing no other."""
    if not hasattr(os, "fork") or not hasattr(os, "waitid"):
        _refuse(options)
    if options.command == "demo":
        from .demo import demo

        return demo(options)
    return _of(options.command)(options)


def _of(command: str) -> Callable[[argparse.Namespace], int]:
    """What carries out a command."""
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
