"""The check of a fence that a caller gives, and the error for a refused write."""

from __future__ import annotations

import operator
from typing import Any, Protocol

from ..core import checks
from ..errors import ConfigError, FenceRejected

#: Fences of stores are integers of 64 bits with a sign, like the columns for them.
FENCE_MAX = (1 << 63) - 1


class HoldLike(Protocol):
    """The part of a hold that fenced writers use: ``fence`` and ``check()``."""

    @property
    def fence(self) -> int:
        """The fence of the hold, greater than that of every earlier grant of the name."""
        ...

    def check(self) -> object:
        """Raise ``LockLost`` or ``NotHeld`` if the hold is no longer held."""
        ...


#: A hold, or the bare number of its fence.
Fence = int | HoldLike


def number(fence: Fence) -> int:
    """Return the number of a fence; a hold is checked first, and its ``LockLost`` is raised.

    >>> number(1287)
    1287
    """
    value: Any = fence
    if callable(check := getattr(fence, "check", None)):
        check()
        value = getattr(fence, "fence", fence)
    try:
        if isinstance(value, bool):
            raise TypeError
        count = operator.index(value)
    except TypeError:
        hint = " (int() of $HOLDFAST_FENCE makes one)" if isinstance(value, str) else ""
        raise ConfigError(
            f"a fence must be a hold or a whole number, not {checks.shown(value)}{hint}"
        ) from None
    if not 1 <= count <= FENCE_MAX:
        raise ConfigError(f"a fence is from 1 to 2**63 - 1, not {checks.shown(count)}")
    return count


def refusal(what: str, fence: int, greatest: int | None) -> FenceRejected:
    """Return the error for a write with an old fence. ``greatest``: the greatest fence that was
    accepted; None if it couldn't be read."""
    accepted = "a greater one" if greatest is None else f"fence {greatest}"
    return FenceRejected(
        f"{what} refused fence {fence}: it has accepted {accepted}. A later holder has written "
        "here, so your hold was lost and nothing of this write was kept. Stop the work that the "
        "lock protects, and acquire it again",
        fence=fence,
        greatest=greatest,
    )
