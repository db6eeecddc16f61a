"""The semaphore: a line whose capacity is the number of permits, and whose claims weigh 1 to n.

Strictly first come, first served: a claim of weight 3 that doesn't fit holds back a claim of
weight 1 behind it, so big claims don't starve.

The permits are kept in the store while anybody holds or waits; another number is refused with an
error that names both. A roll-out from 4 to 8 permits: the new nodes are started with
``permits=8, on_conflict="resize"``. The first of them that meets a line of 4 changes it to 8 at
once; old nodes that still come with 4 are taken in and follow the 8, as nobody who holds loses
anything. When the line is empty it is forgotten, and the next claim declares it again. The way
back (8 to 4) is the same: no permit is taken away, new ones are granted once at most 4 are out.
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

#: What to do when the line has another number of permits.
OnConflict = Literal["error", "resize"]


class SemaphoreBase(LockBase):
    """Everything of a semaphore but the sync or async face."""

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
                f"weight={spec.weight} can never be had from {spec.capacity} permits "
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
                f"{self._ctx.store.label} answered only when the time for {self.name!r} was over, "
                "and too late to change its permits; try again, or with a longer timeout"
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
        """Permits that are free now, by the line's own capacity."""
        self._ctx.require_open()
        lines = await self._ctx.store.inspect(self.name, 5.0, exact=True)
        if not lines:
            return self._spec.capacity
        return max(0, lines[0].capacity - sum(c.weight for c in lines[0].holders))
