"""One action at one exact point of the Python code that this thread runs.

A signal handler, Ctrl-C above all, runs between two instructions; but not between any two. CPython
looks for signals when a function begins, when a loop goes round, and when a call of something
written in C has returned. A random signal hits a few of these *points*, and the same ones again and
again. This tool numbers them and strikes at one: so a piece of work can be interrupted at each
of its points in turn, and none is left to chance::

    for number in range(1, points(work) + 1):
        with contextlib.suppress(KeyboardInterrupt), Strike(number) as strike:
            work()
        assert nothing_is_left(), strike.where

It sees the Python code of the packages named by ``within`` on the thread that entered it, through
``sys.settrace``; so no debugger and no coverage at the same time. Out of its reach is what happens
inside of one call of C code: a sleep or a wait that a signal cuts short raises there.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Self

#: Once one of these is done, the interpreter looks for signals (``ceval.c``: CHECK_EVAL_BREAKER).
_JUMPS = {dis.opmap[name] for name in ("JUMP_BACKWARD",) if name in dis.opmap}
_CALLS = {
    dis.opmap[name]
    for name in ("PRECALL", "CALL", "CALL_KW", "CALL_FUNCTION_EX")
    if name in dis.opmap
}
_RESUME = dis.opmap["RESUME"]
#: Its argument says where a frame continues; after an ``await`` nothing is looked for.
_RESUME_AWAIT = 2
_GOES_ON = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def interrupt() -> None:
    """What Ctrl-C does: raise ``KeyboardInterrupt``."""
    raise KeyboardInterrupt


class Strike:
    """Call ``action`` at point ``number`` (from 1) of what runs inside the ``with`` block.

    ``function`` ("module:qualified.name"): count only the points in that function, so that 1 is
    its beginning. ``within``: count only in modules of these packages. Number 0 never strikes.
    What the action raises is raised at that point. Afterwards ``points`` says how many were
    passed, the struck one included, and ``where`` where it struck, empty if it didn't.
    """

    def __init__(
        self,
        number: int,
        action: Callable[[], object] = interrupt,
        *,
        within: tuple[str, ...] = ("holdfast",),
        function: str = "",
    ) -> None:
        self.points = 0
        self.where = ""
        #: The instruction after which it struck.
        self._after = -1
        self._number = number
        self._action = action
        self._within = within
        self._module, _, self._function = function.partition(":")
        self._text: dict[CodeType, bytes] = {}
        self._wanted: dict[CodeType, bool] = {}
        #: The instruction that each frame does at present, and calls of Python code in it.
        self._doing: dict[FrameType, int] = {}
        self._former: Any = None

    def __enter__(self) -> Self:
        self._former = sys.gettrace()
        # Python 3.12 tells of instructions only where a frame has asked for it before.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._began)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._former)
        self._doing.clear()

    def _began(self, frame: FrameType, event: str, _: Any) -> Any:
        """A function begins, or a coroutine continues."""
        caller = frame.f_back
        if caller in self._doing and not _called_from_c(frame.f_code):
            self._doing[caller] = -1  # nothing is looked for when Python code returns to it
        if self.where or not self._counts(frame):
            return None
        frame.f_trace = self._step  # Python 3.13 wants it first, or tells of them the next time
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._doing[frame] = frame.f_lasti  # a RESUME, of which no event tells
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            self._doing.pop(frame, None)
        elif event == "exception":
            self._doing[frame] = -1  # nothing is looked for on the way to its handler
        elif event == "opcode":
            code = frame.f_code
            text = self._text.get(code) or self._text.setdefault(code, code.co_code)
            done, self._doing[frame] = self._doing.get(frame, -1), frame.f_lasti
            if done >= 0 and _looks(text, done, frame.f_lasti):
                self._pass(frame, done)
        return self._step

    def _pass(self, frame: FrameType, done: int) -> None:
        """Here, after this instruction, the interpreter looks for signals."""
        if self.where:
            return
        self.points += 1
        if self.points == self._number:
            module = frame.f_globals.get("__name__", "?")
            self.where = f"{module}:{frame.f_lineno} in {frame.f_code.co_qualname}"
            self._after = done
            sys.settrace(self._former)
            self._action()

    def _counts(self, frame: FrameType) -> bool:
        code = frame.f_code
        wanted = self._wanted.get(code)
        if wanted is None:
            module = str(frame.f_globals.get("__name__", ""))
            if code.co_name == "__del__":
                wanted = False  # the interpreter itself swallows what is raised there
            elif self._function:
                wanted = module == self._module and code.co_qualname == self._function
            else:
                wanted = any(module == one or module.startswith(one + ".") for one in self._within)
            self._wanted[code] = wanted
        return wanted


def _called_from_c(code: CodeType) -> bool:
    """Is this Python code that C code calls: a generator or coroutine, or the start of an object?

    Whatever else C code may call back (the key of a sort), it is taken for a plain call.
    """
    return bool(code.co_flags & _GOES_ON) or code.co_name in ("__init__", "__new__")


def _looks(text: bytes, at: int, then: int) -> bool:
    """Does the interpreter look for signals between these two instructions?"""
    done = text[at]
    if done == _RESUME:
        return text[at + 1] < _RESUME_AWAIT
    # What only prepares a call is followed by the call, unless it was done in one go.
    return done in _JUMPS or (done in _CALLS and text[then] not in _CALLS)


def points(
    work: Callable[[], object], *, within: tuple[str, ...] = ("holdfast",), function: str = ""
) -> int:
    """Do the work once, undisturbed; how many points it has."""
    with Strike(0, within=within, function=function) as strike:
        work()
    return strike.points
