"""The position of a ``with`` statement, which identifies an entry of a lock object.

Python hands ``__exit__`` nothing that says which ``__enter__`` it belongs to. The frame of the
statement does: a generator or a coroutine keeps its frame wherever its body is moved to, and an
``ExitStack`` is the same object when it is unwound. Only the number of a frame is kept, so no
entry keeps the locals of its caller alive. The number is exact while the statement is inside,
because its frame lives as long; a frame that has ended may have lent its number to a later one, so
the code must be the same, too, and a frame that can't be moved counts only on its own thread.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import NamedTuple
from weakref import ref

#: A frame of such a function is moved between threads: generators, coroutines, both at once.
_MOVABLE = 0x20 | 0x80 | 0x100 | 0x200
#: A frame of such a function is suspended while its task or thread does something else.
_SUSPENDED = 0x20 | 0x100 | 0x200
#: A caller of such a name passes an entry on for another one.
_PASSING = frozenset(
    {
        "__enter__",
        "__exit__",
        "__aenter__",
        "__aexit__",
        "enter_context",
        "enter_async_context",
    }
)


class Spot(NamedTuple):
    """Where a hold was taken by no ``with`` over its lock; noted as a plain tuple, which is made
    faster."""

    code: CodeType
    at: int
    #: The thread or task.
    whose: ref[object] | None
    #: The number of the frame whose ``with`` releases it; 0: none does.
    number: int = 0
    #: The holds that it is one of, where several names were taken together.
    several: ref[object] | None = None


class Place:
    """The statement, or the ``ExitStack``, that an entry belongs to."""

    __slots__ = ("_caller", "at", "code", "number", "stack")

    def __init__(self, frame: FrameType) -> None:
        self.code: CodeType = (code := frame.f_code)
        self.number = id(frame)
        self.at = frame.f_lasti
        self.stack: ref[object] | None = None
        if code.co_name in _PASSING:
            self._passed(frame)

    def _passed(self, frame: FrameType) -> None:
        """Find the statement, or the stack, that it is passed on for."""
        while frame.f_code.co_name in _PASSING and frame.f_back is not None:
            if frame.f_globals.get("__name__") == "contextlib":
                self.stack = ref(frame.f_locals["self"])
                break
            frame = frame.f_back
        self.code, self.number = frame.f_code, id(frame)
        caller = (self.stack and frame.f_back) or frame
        self._caller = caller.f_code, caller.f_lasti

    def spot(self, whose: ref[object] | None = None) -> Spot:
        """The same for people, and for whoever looks whether it is called from inside of it."""
        code, at = getattr(self, "_caller", (self.code, self.at))
        return Spot(code, at, whose, 0 if self.stack else self.number)

    def same(self, other: Place) -> bool:
        """Do both belong to one statement, as far as it can be told?"""
        if self.stack is not None or other.stack is not None:
            return self.stack is not None and self.stack == other.stack
        return self.number == other.number and self.code is other.code

    def movable(self) -> bool:
        """May its end come on another thread, and be known by its place alone?"""
        return self.stack is not None or bool(self.code.co_flags & _MOVABLE)

    def exact(self) -> bool:
        """Is it left from its own place alone? A generator and a stack are there as long as their
        entry; a coroutine or a function that has entered by hand may be over."""
        return self.stack is not None or bool(self.code.co_flags & _SUSPENDED)

    def around(self, frame: FrameType) -> bool:
        """Is this statement one of those that this frame is called from?"""
        above = frame.f_back
        while above is not None:
            if id(above) == self.number and above.f_code is self.code:
                return self.stack is None
            above = above.f_back
        return False

    def alive(self) -> bool:
        """May its end still come? Only what is certainly over is not alive."""
        if self.stack is not None:
            return self.stack() is not None
        if self.code.co_flags & _MOVABLE:
            return True
        for thread in sys._current_frames().values():
            frame: FrameType | None = thread
            while frame is not None:
                if id(frame) == self.number and frame.f_code is self.code:
                    return True
                frame = frame.f_back
        return False
