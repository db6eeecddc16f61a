"""The semaphore: a line of claims. Its capacity is the number of permits; a claim weighs 1 to n.

Strictly first come, first served: a claim of weight 3 that doesn't fit holds back a later claim of
weight 1, so that large claims don't starve.

The store keeps the number of permits while there is a holder or a waiter. It refuses a claim with
another number; the error names both numbers. For a roll-out from 4 to 8 permits, start the new
nodes with ``permits=8, on_conflict="resize"``. The first new claim that meets a line of 4 changes
it to 8 immediately. Claims of old nodes, which still declare 4, are then granted from the 8
permits. The way back from 8 to 4 works in the same way: no holder loses a permit, and new claims
wait until they fit into the 4 permits. The store forgets an empty line, so the next claim declares
the number.
"""

from __future__ import annotations

from typing import Any, Literal

from ..errors import CapacityMismatch, ConfigError, NotSupported, StoreUnavailable
from . import checks
from .claims import mismatch, times
from .context import Context
from .hold import HoldBase
from .lease import Terms
from .lock import LockBase
from .model import Kind, Mismatch, Spec
from .policy import REQUEST_S, REQUEST_S_MIN

#: The effect of a claim with another number of permits than its line of claims has.
OnConflict = Literal["error", "resize"]


class SemaphoreBase(LockBase):
    """A semaphore, without its methods for threads or asyncio."""

    __slots__ = ("_on_conflict",)

    def __init__(
        self,
        ctx: Context,
        spec: Spec,
        terms: Terms,
        timeout: float | None,
        on_conflict: OnConflict = "error",
    ) -> None:
        super().__init__(ctx, spec, terms, timeout)
        if spec.weight > spec.capacity:
            raise ConfigError(
                f"weight={spec.weight} can never be granted with {spec.capacity} permits "
                f"of {spec.name!r}"
            )
        if on_conflict not in ("error", "resize"):
            raise ConfigError(
                f'on_conflict must be "error" or "resize", not {checks.shown(on_conflict)}'
            )
        self._on_conflict = on_conflict

    @property
    def permits(self) -> int:
        """The number of permits that this semaphore object declares."""
        return self._spec.capacity

    async def _try(
        self, wait: float | None, begun: float | None = None
    ) -> tuple[HoldBase | None, str]:
        now = self._ctx.now
        begun = now() if begun is None else begun
        try:
            return await super()._try(wait, begun)
        except CapacityMismatch as other:
            if self._on_conflict != "resize" or other.kind != Kind.SEMAPHORE:
                raise
        left = times(wait, begun)[1] - now()
        if left <= 0:
            raise StoreUnavailable(
                f"{self._ctx.store.label} answered only after the time-out for {self.name!r}, too "
                "late to change its permits; try again, or with a longer timeout"
            )
        await self._resize(self._spec.capacity, max(left, REQUEST_S_MIN))
        return await super()._try(wait, begun)

    async def _resize(self, permits: Any, within: float = REQUEST_S) -> int | None:
        self._ctx.require_open()
        if not self._ctx.store.capabilities.resize:
            raise NotSupported(f"{self._ctx.store.label} can't change the permits of a line in use")
        count = checks.count("permits", permits)
        if self._spec.weight > count:
            raise ConfigError(
                f"weight={self._spec.weight} of {self.name!r} doesn't fit into {count} permits; "
                "resize it by a semaphore object with a smaller weight"
            )
        answer = await self._ctx.store.resize(self.name, count, min(within, REQUEST_S))
        if isinstance(answer, Mismatch):
            raise mismatch(self._spec, answer)
        self._spec = self._spec._replace(capacity=count)
        return answer

    async def _available(self) -> int:
        """Return the number of free permits, by the line's current capacity."""
        self._ctx.require_open()
        lines = await self._ctx.store.inspect(self.name, 5.0, exact=True)
        if not lines:
            return self._spec.capacity
        return max(0, lines[0].capacity - sum(c.weight for c in lines[0].holders))
