"""Ctrl-C at one step of chosen code: a tracer that counts bytecodes, so that each can be struck."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def interrupted(call: Callable[[], object], step: int, where: Callable[[FrameType], bool]) -> bool:
    """Call it, with a Ctrl-C at this step of the code that is meant. False: it ended before."""
    left = step

    def strike(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if not where(frame):
            return strike
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return strike

    before = sys.gettrace()
    sys.settrace(strike)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
