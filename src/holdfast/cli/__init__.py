"""The command ``holdfast``: a lock around a command, jobs in queues, and a look at all there is.

``main`` turns every error into one line on stderr and an exit status of ``codes``. Each command
lives in a module of its own, which is imported when it is called.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import HoldfastError
from . import codes
from .text import say

if TYPE_CHECKING:
    import argparse

__all__ = ["main", "parser"]


def main(words: Sequence[str] | None = None) -> int:
    """Do what a command line says; its exit status.

    The collector of garbage rests meanwhile: there is little, and its rounds take 4 ms of the
    start. Commands that go on for long wake it.
    """
    gc.disable()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _main(sys.argv[1:] if words is None else list(words))
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return codes.SIGNALLED + 2
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


def _main(words: list[str]) -> int:
    from . import tree

    if not words:
        tree.parser().print_help(sys.stderr)
        return codes.USAGE
    try:
        options = tree.parse(words)
    except tree.Usage as wrong:
        say(f"{wrong} (see {wrong.command} --help)")
        return codes.USAGE
    except SystemExit:  # --help, --version
        return 0
    return _call(options, words)


def _call(options: argparse.Namespace, words: list[str]) -> int:
    """Call the command, importing no other."""
    if options.command == "run":
        from .run import run as call
    elif options.command == "demo":
        from . import demo

        return demo.run(words[1:])
    elif options.command == "completion":
        from .completion import completion as call
    elif options.command == "break":
        from .break_ import break_ as call
    elif options.command == "doctor":
        from .doctor import doctor as call
    elif options.command == "purge":
        from .purge import purge as call
    elif options.command == "schema":
        from .schema import schema as call
    elif options.command == "queue":
        from .queue import queue as call
    elif options.command == "guard":
        from .guard import guard as call
    elif options.command == "show":
        from .look import show as call
    else:
        from .look import ls as call
    return call(options)
