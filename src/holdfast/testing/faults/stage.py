"""A subject's side of its messages: ``python -m holdfast.testing.faults.stage``.

The process runs one function. Its first argument is a :class:`Stage`, which exchanges messages with
the process that started it; its own arguments follow. Messages are lines of JSON, one value each,
on standard input and output. Prints of the function go to standard error, so that they are not
taken for messages.
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

#: Seconds after which a subject prints its stacks and ends by itself.
LIFE_S = 900.0


class Stage:
    """Sends and receives the messages of a subject."""

    def __init__(self, ear: int, mouth: int) -> None:
        self._ear = ear
        self._mouth = mouth
        self._heard = b""

    def say(self, value: Any) -> None:
        """Send one value at once: it is written when this returns, even if a kill follows."""
        os.write(self._mouth, json.dumps(value).encode() + b"\n")

    def hear(self, within: float | None = None) -> Any:
        """The next value that arrives; None when the other side has closed the pipe.

        ``TimeoutError`` after ``within`` seconds. It blocks: under asyncio call it through
        ``asyncio.to_thread``.
        """
        while b"\n" not in self._heard:
            if not readable(self._ear, within):
                raise TimeoutError(f"no message for {within} s")
            piece = os.read(self._ear, 65536)
            if not piece:
                return None
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)


def main(function: str, arguments: str) -> None:
    """Run ``module:name`` with a stage and then the arguments of a JSON list."""
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
