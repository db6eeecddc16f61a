"""The position of a ``with`` statement, which identifies an entry of a lock object.

Python passes nothing to ``__exit__`` that identifies its ``__enter__``. The frame of the statement
identifies it: a generator or a coroutine keeps its frame wherever its body runs. For an
``ExitStack``, the stack object identifies the entry. Only the number of a frame (its ``id``) is
kept, so an entry doesn't keep the locals of its caller alive. The number is exact while the body of
the statement runs, because the frame exists at least until then. After a frame has ended, a later
frame can get its number. So the code must be the same as well, and a frame that can't move between
threads counts only on its own thread.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import NamedTuple
from weakref import ref

#: Flags of functions whose frames can move between threads: generators, coroutines, and both.
_MOVABLE = 0x20 | 0x80 | 0x100 | 0x200
#: Flags of functions whose frames are suspended while their task or thread does something else.
_SUSPENDED = 0x20 | 0x100 | 0x200
#: Functions that enter or leave a lock for their caller: the entry belongs to the caller.
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
    """The position of an acquire without a ``with`` over its lock.

    A hold notes it as a plain tuple, which is faster to make.
    """

    code: CodeType
    at: int
    #: The thread or task that acquired the hold.
    whose: ref[object] | None
    #: The number of the frame whose ``with`` releases the hold; 0: no ``with`` does.
    number: int = 0
    #: The holds on several names (`MultiHoldBase`) that include this hold, if there are any.
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
        """Find the statement, or the stack, for which the function of this frame was called."""
        while frame.f_code.co_name in _PASSING and frame.f_back is not None:
            if frame.f_globals.get("__name__") == "contextlib":
                self.stack = ref(frame.f_locals["self"])
                break
            frame = frame.f_back
        self.code, self.number = frame.f_code, id(frame)
        caller = (self.stack and frame.f_back) or frame
        self._caller = caller.f_code, caller.f_lasti

    def spot(self, whose: ref[object] | None = None) -> Spot:
        """Return the position, for messages and for the search for this statement among callers."""
        code, at = getattr(self, "_caller", (self.code, self.at))
        return Spot(code, at, whose, 0 if self.stack else self.number)

    def same(self, other: Place) -> bool:
        """Return True if both places belong to one statement, as far as this can be known."""
        if self.stack is not None or other.stack is not None:
            return self.stack is not None and self.stack == other.stack
        return self.number == other.number and self.code is other.code

    def movable(self) -> bool:
        """Return True if its entry can be left on another thread; the place then identifies it."""
        return self.stack is not None or bool(self.code.co_flags & _MOVABLE)

    def exact(self) -> bool:
        """Return True if its entry is left only from this place.

        A generator and a stack exist at least until their entry is left. A coroutine or a function
        that called ``__enter__`` or ``__aenter__`` by hand can have ended before its entry is left.
        """
        return self.stack is not None or bool(self.code.co_flags & _SUSPENDED)

    def around(self, frame: FrameType) -> bool:
        """Return True if this statement is in a function from which this frame was called."""
        above = frame.f_back
        while above is not None:
            if id(above) == self.number and above.f_code is self.code:
                return self.stack is None
            above = above.f_back
        return False

    def alive(self) -> bool:
        """Return False if the statement has certainly ended, so that nothing can leave it."""
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
