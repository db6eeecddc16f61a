"""A subject's view of the process that started it: ``python -m holdfast.testing.faults.stage``.

The process runs one function, which gets a :class:`Stage` to speak and listen with, and then its
arguments. Lines are JSON, one value each, over standard input and output. Whatever the function
prints goes to standard error, lest it be taken for a line.
"""

from __future__ import annotations

import asyncio
import faulthandler
import importlib
import inspect
import json
import os
import sys
from typing import Any

from .pipe import readable

#: Seconds after which a subject that nobody ends shows where it is, and ends itself.
LIFE_S = 900.0


class Stage:
    """The subject's side of the conversation."""

    def __init__(self, ear: int, mouth: int) -> None:
        self._ear = ear
        self._mouth = mouth
        self._heard = b""

    def say(self, value: Any) -> None:
        """Say one thing, at once: it is out when this returns, even if we are killed then."""
        os.write(self._mouth, json.dumps(value).encode() + b"\n")

    def hear(self, within: float | None = None) -> Any:
        """The next thing that we are told; None when there is nobody any more.

        ``within`` seconds, else ``TimeoutError``. It blocks: under asyncio call it through
        ``asyncio.to_thread``.
        """
        while b"\n" not in self._heard:
            if not readable(self._ear, within):
                raise TimeoutError(f"told nothing for {within} s")
            piece = os.read(self._ear, 65536)
            if not piece:
                return None
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)


def main(function: str, arguments: str) -> None:
    """Run ``module:name`` with a stage and with arguments that are a JSON list."""
    faulthandler.enable()
    faulthandler.dump_traceback_later(LIFE_S, exit=True)
    stage = Stage(os.dup(0), os.dup(1))
    os.dup2(2, 1)
    module, _, name = function.partition(":")
    done = getattr(importlib.import_module(module), name)(stage, *json.loads(arguments))
    if inspect.iscoroutine(done):
        asyncio.run(done)


if __name__ == "__main__":
    main(*sys.argv[1:])
