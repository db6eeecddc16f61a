"""A place identifies one ``with`` statement: by its frame and code, or by its ``ExitStack``."""

from __future__ import annotations

import sys
from types import FrameType
from weakref import ref

from holdfast.core.place import Place


class Stack:
    """In the place of an ``ExitStack``."""


def frame() -> FrameType:
    """Return the frame of a call."""
    return sys._getframe()


def test_a_stack_is_no_statement_and_no_other_stack() -> None:
    here, stack, other = sys._getframe(), Stack(), Stack()
    plain, same, first, second = (Place(here) for _ in range(4))
    first.stack, second.stack = ref(stack), ref(other)
    assert plain.same(same)
    assert first.same(first)
    assert not plain.same(first)
    assert not first.same(plain)
    assert not first.same(second)


def test_a_frame_of_the_same_number_or_the_same_code_is_not_the_same() -> None:
    here, once = Place(sys._getframe()), Place(frame())
    number = Place(sys._getframe())
    number.code = once.code
    code = Place(sys._getframe())
    code.number += 1
    assert not here.same(number)
    assert not here.same(code)
    # And only the very frame is around a call
    inside = frame()
    assert here.around(inside)
    assert not number.around(inside)
    assert not code.around(inside)
    here.stack = ref(Stack())
    assert not here.around(inside)
