"""The failure that no second try makes undone: what is promised at any speed was broken.

A bound on time says something of the code and of the machine it runs on; a machine that stands
still for seconds breaks it, and a second run may pass. Two holders at once, a lost job or a fence
that falls are wrong on any machine. A test that finds one of these raises :class:`PromiseBroken`,
so that whoever runs the tests can tell the two apart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Iterable


class PromiseBroken(AssertionError):
    """Something happened that must never happen, however slow or disturbed the machine is.

    All judges of ``holdfast.testing`` raise it: the simulators, the differential tests, and those
    that judge recorded histories. A test runner should report it and never run the test again.
    """


class TooLate(AssertionError):
    """Something was waited for and did not come in time: a bound, and no promise of any speed."""


@contextlib.contextmanager
def promised(what: str) -> Generator[None]:
    """A context whose failed assertions are raised as :class:`PromiseBroken`.

    ``what`` is the promise, in words, for the message. ``TooLate`` goes through as it is::

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
    """Raise what a judge found, told in these words; nothing if it found nothing.

    ``PromiseBroken``, or a plain ``AssertionError`` if all that is broken are bounds on time.
    """
    kinds = set(broken)
    if kinds - set(bounds):
        raise PromiseBroken(told)
    if kinds:
        raise AssertionError(told)
