"""The read-write lock: a reader weighs 1, a writer the whole of a large capacity.

Readers and writers share one line of claims, so neither starves: a writer waits for the readers
ahead of it and holds back later readers. So a nested read of the same thread or task must not enter
the line: the nested read would wait for a writer that waits for the outer read. The client counts
the nested read instead, also inside a write. A write inside a read would wait for itself, so it is
refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import NotSupported
from . import checks
from .hold import HoldBase
from .lease import Lease
from .lock import LockBase
from .model import RWLOCK_CAPACITY
from .refused_with import Refusal


class RWSideBase(LockBase):
    """One side of a read-write lock; both sides share one line of claims."""

    __slots__ = ()

    async def _try(
        self, wait: float | None, begun: float | None = None
    ) -> tuple[HoldBase | None, str]:
        flows = self._ctx.flows
        inside = flows.find(self._spec)
        if inside is not None and inside.lost is None:
            if self._spec.weight == 1:
                return await self._again(inside)
            held = "writing" if inside.weight == RWLOCK_CAPACITY else "reading"
            raise NotSupported(
                f"this thread or task is {held} {self.name!r} already; writing inside of that "
                "would wait for itself forever. Release first, then acquire the write side; "
                "or begin with the write side and downgrade() when done writing"
            )
        return await super()._try(wait, begun)

    def _make(self, lease: Lease) -> HoldBase:
        hold = super()._make(lease)
        self._ctx.flows.enter(hold, strict=False)
        return hold


class RWLockBase:
    """Both sides of a read-write lock."""

    __slots__ = ("_read", "_write")

    if not TYPE_CHECKING:
        __enter__ = __aenter__ = Refusal("`with`", "enter its `read` or its `write`")

    def __init__(self, read: Any, write: Any) -> None:
        self._read = read
        self._write = write

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def __reduce__(self) -> Any:
        raise checks.unpicklable(self._read)

    @property
    def name(self) -> str:
        """The name that both sides share."""
        return str(self._read.name)
