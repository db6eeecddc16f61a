"""The process of a subject: ``python -m holdfast.testing.faults.stage``.

The process runs one function. The first argument of the function is a :class:`Stage`, which
exchanges messages with the process that started the subject; the function's own arguments follow.
Messages are lines of JSON, one value each, on standard input and output. Whatever the function
prints goes to standard error, so that no output is read as a message.
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
    """Sends messages to the test (``say``) and receives messages from it (``hear``)."""

    def __init__(self, ear: int, mouth: int) -> None:
        self._ear = ear
        self._mouth = mouth
        self._heard = b""

    def say(self, value: Any) -> None:
        """Send one value. The test gets it even if the subject is killed after this call."""
        os.write(self._mouth, json.dumps(value).encode() + b"\n")

    def hear(self, within: float | None = None) -> Any:
        """Return the next value that arrives; None if the other side has closed the pipe.

        ``TimeoutError`` after ``within`` seconds. The call blocks: under asyncio use
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
    """Run the function ``module:name`` with a stage and the arguments, which are a JSON list."""
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
