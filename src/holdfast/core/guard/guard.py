"""The refresh guard of one client: the state that its callers share, and its counts.

``refresh.py`` contains the steps of one caller, ``flight.py`` the merging of several callers.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, StoreUnavailable
from .. import checks
from ..asking import Asking
from ..policy import REQUEST_S
from ..refused_with import Refusal
from ..sameness import named, same
from . import codec
from .commons import TELL_S, commons, tell
from .elsewhere import Elsewhere
from .flight import Failure, Flight, Order, Seat
from .model import ENTRIES_MAX, KEY_BYTES_MAX, Entry, EntryRecord, GuardCounts, GuardRecord, Value
from .options import Options
from .ports import Guards, glance_of, guards_of
from .refresh import DOWN_S, Compute, asks_itself, beside, lead

if TYPE_CHECKING:
    from ..context import Context

log = logging.getLogger("holdfast")

#: Maximum number of callers that read at the same time as the leader, while the leader only reads.
BESIDE_MAX = 2
#: The value of a ``timeout`` that was not given; the guard's time-out is used.
DEFAULT: Any = object()


class GuardBase:
    """A refresh guard of one client."""

    if not TYPE_CHECKING:
        __enter__ = __aenter__ = Refusal("`with`", "call get(compute) for the value")

    def __init__(self, ctx: Context, name: str, options: Options) -> None:
        self._ctx = ctx
        self._name = name
        self._options = options
        self._begin()

    def _begin(self) -> None:
        """Start, or start again in the child of a fork."""
        self._epoch = self._ctx.epoch
        cache = self._options.cache
        self._shared = commons(self._ctx, self._name, cache)
        self._near = self._shared.near
        self._counts = self._shared.counts
        self._elsewhere: Elsewhere | None = None
        #: The store's method that returns values without a request, or None.
        self._glance: Callable[[Entry], Value | None] | None = None
        if cache is None:
            self._glance = glance_of(guards_of(self._ctx.store))
        else:
            self._elsewhere = Elsewhere(guards_of(self._ctx.store), cache)

    @property
    def name(self) -> str:
        """The name of the guard."""
        return self._name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} on {self._ctx.store.label}>"

    def __reduce__(self) -> Any:
        raise checks.unpicklable(self)

    def _guards(self) -> Guards:
        self._ctx.require_open()
        self._ctx.runtime.bind()
        return guards_of(self._ctx.store) if self._elsewhere is None else self._elsewhere

    def _serves(self, function: Callable[..., object]) -> None:
        """Tie the guard to this function; refuse a second function."""
        before = self._shared.function
        if before is not None and not same(before, function):
            first, second = named(before), named(function)
            if first == second:
                second = "another one of that name, with other code or other variables around it,"
            raise ConfigError(
                f"the guard {self._name!r} has the values of {first}, and {second} would get those "
                "as its values; give each a separate template"
            )
        self._shared.function = function

    # -- one value ---------------------------------------------------------------------------

    def _nearby(self, key: Any) -> bytes | None:
        """Return a value that needs no request; every call tries this first."""
        local = self._options.local_ttl
        found = self._near.get(key, self._ctx.now(), local) if local else None
        if found is not None:
            counts = self._counts
            counts["hits"] += 1
            counts["near"] += 1
            return found
        return None if self._glance is None else self._glanced(self._glance, key)

    def _glanced(self, glance: Callable[[Entry], Value | None], key: Any) -> bytes | None:
        """Return a value that the store's `glance` has without a request: it is as recent as one
        from a read.

        The value is fresh; or it is stale, and another caller computes the next one.
        """
        sent, era = self._ctx.now(), self._near.era
        if self._options.early or sent - self._ctx.told > TELL_S:
            return None
        value = glance(Entry(self._name, key))
        if value is None:
            return None
        if value.fresh_in > 0:
            self._count("hits")
            self._keep_near(key, value, sent, era)
        elif value.stale_in > 0 and sent < self._shared.busy.get(key, 0.0):
            self._count("stale")
        else:
            return None
        self._ctx.untold[self._shared] = None
        return value.data

    def _keep_near(self, key: str, value: Value, sent: float, era: int) -> None:
        if self._options.local_ttl:
            self._near.put(key, value, sent, era, self._options.local_entries_max)

    def _opened(self, data: bytes) -> Any:
        return codec.unpack(data, self._options.codec)

    async def _get(self, key: str, compute: Compute, timeout: Any = DEFAULT) -> Any:
        """Return the value: from the store, from another caller, or computed here."""
        if not (key.__class__ is str and key.isascii() and len(key) <= KEY_BYTES_MAX):
            checks.text("key", key, KEY_BYTES_MAX, 0)
        self._guards()
        if self._epoch != self._ctx.epoch:
            self._begin()
        span = self._options.timeout if timeout is DEFAULT else checks.wait(True, timeout)
        now = self._ctx.now()
        end = float("inf") if span is None else now + span
        value = await self._join(key, compute, end)
        self._ctx.untold[self._shared] = None
        if now - self._ctx.told > TELL_S:
            await tell(self._ctx)
        try:
            return self._opened(value.data)
        except codec.Damaged as wrong:
            log.warning("%s: %s; it is computed again", Entry(self._name, key), wrong)
        await self._invalidate((key,))
        value = await self._join(key, compute, end)
        return self._opened(value.data)

    async def _join(self, key: str, compute: Compute, end: float) -> Value:
        """Lead the callers that want this value, or wait for the leader's result."""
        flight: Flight[Value] = Flight()
        alone = not self._options.early
        while True:
            found = self._shared.flights.setdefault(key, flight)
            if found is flight:
                return await lead(self, key, flight, compute, end)
            if alone and found.reads and found.beside < BESIDE_MAX:
                alone = False
                value = await beside(self, key, found, end)
                if value is not None:
                    return value
                continue
            if found.computing is not None and found.computing == self._ctx.runtime.flow():
                raise asks_itself(Entry(self._name, key))
            seat: Seat[Value] = Seat(self._ctx.runtime.latch())
            outcome = await self._sit(key, found, seat, end) if found.sit(seat) else Order.AGAIN
            if outcome is Order.AGAIN:
                self._shared.drop(key, found)
                continue
            if outcome is None:  # our time-out has expired: ask once more, alone
                return await lead(self, key, Flight(), compute, end)
            if outcome is Order.LEAD:
                return await lead(self, key, found, compute, end)
            self._count("merged")
            if isinstance(outcome, Failure):
                raise outcome.error()
            return outcome

    async def _sit(
        self, key: str, flight: Flight[Value], seat: Seat[Value], end: float
    ) -> Value | Failure | Order | None:
        """Return the leader's result; None after our time-out."""
        try:
            left = end - self._ctx.now()
            woken = await seat.latch.wait(None if left == float("inf") else max(left, 0.0))
            return None if not woken and seat.draw() else seat.outcome
        except BaseException:
            if not seat.draw() and seat.outcome is Order.LEAD:
                self._shared.over(key, flight, flight.hand_over())
            raise

    # -- several values, and invalidation ------------------------------------------------------

    async def _get_many(
        self, keys: Iterable[str], compute: Callable[[str], Compute], timeout: Any = DEFAULT
    ) -> dict[str, Any]:
        """Return the values of several keys: one round trip for all fresh values.

        If the store is down, this method waits for the store once, not once per key.
        """
        given = checks.several("keys", keys)
        wanted = list(dict.fromkeys(checks.text("key", key, KEY_BYTES_MAX, 0) for key in given))
        found = {key: data for key in wanted if (data := self._nearby(key)) is not None}
        self._guards()
        rest = [key for key in wanted if key not in found]
        down = False
        for start in range(0, len(rest), ENTRIES_MAX):
            try:
                await self._read_many(rest[start : start + ENTRIES_MAX], found)
            except StoreUnavailable as failure:
                self._ctx.require_open()
                if self._options.on_store_error != "compute":
                    raise
                log.warning("%s; values of %r are computed without it", failure, self._name)
                down = True
                break
        result = {}
        for key in wanted:
            data = found.get(key)
            if data is not None:
                with contextlib.suppress(codec.Damaged):  # a damaged value is computed below
                    result[key] = self._opened(data)
                    continue
            if down:
                result[key] = self._opened(await self._computed(compute(key)))
            else:
                before = self._shared.without
                result[key] = await self._get(key, compute(key), timeout)
                down = self._shared.without != before
        return result

    async def _read_many(self, keys: Sequence[str], found: dict[str, bytes]) -> None:
        """Read these keys in one round trip, and add the fresh values to ``found``."""
        guards, options = self._guards(), self._options
        sent, era = self._ctx.now(), self._near.era
        entries = [Entry(self._name, key) for key in keys]
        values = await Asking(self._ctx).insist(
            lambda within: guards.read(entries, within),
            sent + (DOWN_S if options.on_store_error == "compute" else REQUEST_S),
        )
        for key, value in zip(keys, values, strict=True):
            if value is not None and value.fresh_in > 0:
                self._count("hits")
                self._keep_near(key, value, sent, era)
                found[key] = value.data

    async def _computed(self, compute: Compute) -> bytes:
        """Compute a value that isn't stored."""
        self._count("computes")
        return codec.pack(await compute(), self._options.codec, self._options.max_bytes)

    async def _invalidate(self, keys: Iterable[str]) -> int:
        """Forget these values; return the number of values that existed."""
        wanted = [Entry(self._name, checks.text("key", key, KEY_BYTES_MAX, 0)) for key in keys]
        guards, total = self._guards(), 0
        self._near.forget(*(entry.key for entry in wanted))
        for start in range(0, len(wanted), ENTRIES_MAX):
            some = wanted[start : start + ENTRIES_MAX]
            answers = await Asking(self._ctx).insist(
                lambda within, some=some: guards.invalidate(some, within),  # type: ignore[misc]
                self._ctx.now() + REQUEST_S,
            )
            total += sum(answers)
        self._near.forget(*(entry.key for entry in wanted))
        for entry in wanted:
            self._shared.busy.pop(entry.key, None)
        return total

    # -- inspecting and counting ---------------------------------------------------------------

    def _count(self, what: str, times: int = 1) -> None:
        self._counts[what] += times

    async def _inspect(self, key: str) -> EntryRecord:
        entry = Entry(self._name, checks.text("key", key, KEY_BYTES_MAX, 0))
        return await self._guards().look(entry, REQUEST_S)

    async def _stats(self) -> GuardCounts:
        """Return the counts of all clients of this guard, this client included."""
        self._ctx.untold[self._shared] = None
        await tell(self._ctx, len(self._ctx.untold))
        found = await guards_of(self._ctx.store).survey(self._name, REQUEST_S, exact=True)
        records = found or [GuardRecord(self._name, GuardCounts())]
        return records[0].tally.plus(GuardCounts(**self._counts))
