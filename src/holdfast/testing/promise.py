"""The failure that a second run can't excuse: a promise that holds at any speed was broken.

A bound on time depends on the code and on the machine; a machine that stops for seconds breaks it,
and a second run may pass. Two holders at once, a lost job or a fence that falls are wrong on any
machine. A test that finds one of these raises :class:`PromiseBroken`, so that a test runner can
distinguish a broken promise from a broken bound.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Iterable


class PromiseBroken(AssertionError):
    """Something happened that must never happen, however slow or disturbed the machine is.

    All judges of ``holdfast.testing`` raise it: the simulators, the differential tests, and the
    judges of recorded histories. A test runner should report it and never run the test again.
    """


class TooLate(AssertionError):
    """An awaited event did not happen in time: a bound was broken, not a promise."""


@contextlib.contextmanager
def promised(what: str) -> Generator[None]:
    """A context whose failed assertions are raised as :class:`PromiseBroken`.

    ``what`` describes the promise in the message. ``TooLate`` passes through unchanged::

        with promised("one holder at a time"):
            assert other.try_acquire() is None
    """
    try:
        yield
    except (PromiseBroken, TooLate):
        raise
    except AssertionError as failure:
        raise PromiseBroken(f"{what}: {failure}") from failure


def demand(broken: Iterable[str], bounds: Collection[str], told: str) -> None:
    """Raise an exception with the message ``told`` if a judge found anything broken.

    ``broken`` has the names of the broken rules. The exception is ``PromiseBroken``, or a plain
    ``AssertionError`` if each of them is in ``bounds``: the rules that only limit a time.
    """
    kinds = set(broken)
    if kinds - set(bounds):
        raise PromiseBroken(told)
    if kinds:
        raise AssertionError(told)
