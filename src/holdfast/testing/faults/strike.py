"""Run one action at one exact point of the Python code that this thread runs.

A signal handler, such as that of Ctrl-C, runs only at certain *points* of the code. CPython checks
for signals when a function begins, when a loop repeats, and when a call of C code has returned.
Random signals hit only a few of these points, and the same few each time. This tool numbers the
points and runs the action at one of them. So a test can interrupt a piece of work at each of its
points in turn, and no point is left to chance::

    for number in range(1, points(work) + 1):
        with contextlib.suppress(KeyboardInterrupt), Strike(number) as point:
            work()
        assert nothing_is_left(), point.where

The tool uses ``sys.settrace``, so no debugger and no coverage tool can run at the same time. It
counts the points of the packages named by ``within``, on the thread that entered the ``with``
block. It can't act inside one call of C code, such as a sleep that a signal interrupts.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Self

#: Instructions after which the interpreter checks for signals (``ceval.c``: CHECK_EVAL_BREAKER):
#: these jumps, the calls, and RESUME, which begins a function or continues a coroutine.
_JUMPS = {dis.opmap[name] for name in ("JUMP_BACKWARD",) if name in dis.opmap}
_CALLS = {
    dis.opmap[name]
    for name in ("PRECALL", "CALL", "CALL_KW", "CALL_FUNCTION_EX")
    if name in dis.opmap
}
_RESUME = dis.opmap["RESUME"]
#: A RESUME with this argument or a greater one (after an ``await``) doesn't check for signals.
_RESUME_AWAIT = 2
_GOES_ON = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def interrupt() -> None:
    """Raise ``KeyboardInterrupt``, as Ctrl-C does."""
    raise KeyboardInterrupt


class Strike:
    """Call ``action`` at point ``number`` (from 1) of the code that runs in the ``with`` block.

    ``function`` ("module:qualified.name"): count only the points in that function, so that 1 is
    its beginning. ``within``: count only in modules of these packages. With number 0 the action is
    never called. An exception of the action is raised at the point. Afterwards ``points`` is the
    number of passed points, including the point of the action. ``where`` describes the point of
    the action, and is empty if the action wasn't called.
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
        #: The instruction after which the action was called.
        self._after = -1
        self._number = number
        self._action = action
        self._within = within
        self._module, _, self._function = function.partition(":")
        self._text: dict[CodeType, bytes] = {}
        self._wanted: dict[CodeType, bool] = {}
        #: The current instruction of each frame; -1 if no check for signals follows it.
        self._doing: dict[FrameType, int] = {}
        self._former: Any = None

    def __enter__(self) -> Self:
        self._former = sys.gettrace()
        # Python 3.12 sends events of instructions only if some frame requested them before.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._began)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._former)
        self._doing.clear()

    def _began(self, frame: FrameType, event: str, _: Any) -> Any:
        """Trace a frame: a function begins, or a coroutine continues."""
        caller = frame.f_back
        if caller in self._doing and not _called_from_c(frame.f_code):
            self._doing[caller] = -1  # no check for signals when Python code returns to it
        if self.where or not self._counts(frame):
            return None
        frame.f_trace = self._step  # Python 3.13 needs it first, or events begin one call later
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._doing[frame] = frame.f_lasti  # a RESUME, which has no event
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            self._doing.pop(frame, None)
        elif event == "exception":
            self._doing[frame] = -1  # no check for signals on the way to its handler
        elif event == "opcode":
            code = frame.f_code
            text = self._text.get(code) or self._text.setdefault(code, code.co_code)
            done, self._doing[frame] = self._doing.get(frame, -1), frame.f_lasti
            if done >= 0 and _looks(text, done, frame.f_lasti):
                self._pass(frame, done)
        return self._step

    def _pass(self, frame: FrameType, done: int) -> None:
        """Count the point after the instruction ``done``; run the action at the wanted point."""
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
                wanted = False  # the interpreter itself discards an exception of __del__
            elif self._function:
                wanted = module == self._module and code.co_qualname == self._function
            else:
                wanted = any(module == one or module.startswith(one + ".") for one in self._within)
            self._wanted[code] = wanted
        return wanted


def _called_from_c(code: CodeType) -> bool:
    """Return True if C code calls this code: a generator, coroutine, ``__init__`` or ``__new__``.

    Other callbacks from C code (the key of a sort) count as plain calls.
    """
    return bool(code.co_flags & _GOES_ON) or code.co_name in ("__init__", "__new__")


def _looks(text: bytes, at: int, then: int) -> bool:
    """Return True if the interpreter checks for signals between these two instructions."""
    done = text[at]
    if done == _RESUME:
        return text[at + 1] < _RESUME_AWAIT
    # An instruction that only prepares a call comes before the call itself, and has no check.
    return done in _JUMPS or (done in _CALLS and text[then] not in _CALLS)


def points(
    work: Callable[[], object], *, within: tuple[str, ...] = ("holdfast",), function: str = ""
) -> int:
    """Run the work once without a fault, and return the number of its points."""
    with Strike(0, within=within, function=function) as strike:
        work()
    return strike.points
