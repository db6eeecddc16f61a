"""The client for asyncio."""

from __future__ import annotations

import os
from asyncio.events import _get_running_loop
from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from ..core import checks
from ..core.client import DEFAULT_TTL_S, ClientBase
from ..core.context import Context
from ..core.drivers import needed
from ..core.model import RWLOCK_CAPACITY, Kind, LineRecord
from ..core.semaphore import OnConflict
from ..core.unnamed import tell as tell_unnamed
from ..runtime import fork
from ..runtime.aio import AioRuntime, require_loop
from ..runtime.blocking import opening
from ..runtime.identity import Owner
from ..url import Native, find, portable, source, unnamed
from .locks import (
    AsyncElection,
    AsyncHold,
    AsyncLock,
    AsyncMultiLock,
    AsyncRWLock,
    AsyncRWSide,
    AsyncSemaphore,
    OnLost,
)
from .loops import Loops, twin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.guard.codec import Codec
    from ..core.guard.model import GuardRecord
    from ..core.guard.options import GuardOptions
    from ..core.queue.model import QueueRecord
    from .guard import AsyncCaching, AsyncGuard
    from .queue import AsyncQueue


class AsyncClient(ClientBase):
    """Locks in one store, for asyncio: ``AsyncClient("sqlite:///var/lib/app/locks.db")``.

    Without a URL it uses ``$HOLDFAST_URL`` or, if that is unset, the embedded store of this user on
    this machine. A client is cheap to make, and tasks and event loops can share it. So it can be
    made at module level: it connects in each loop at the first use in that loop, and closes these
    connections when the loop ends. Use it as a context manager or ``close()`` it; it pickles as its
    URL. After a fork, the child holds nothing.
    """

    __slots__ = ("_loops",)

    def __init__(
        self,
        store: str | os.PathLike[str] | Native | None = None,
        *,
        ttl: float = DEFAULT_TTL_S,
        label: str | None = None,
    ) -> None:
        origin = source(store)
        with opening(), needed():
            module, url = find(origin)
            opened = module.open_aio(url)
        super().__init__(opened, AioRuntime(), AsyncHold, origin, ttl, Owner(label))
        if unnamed(store):
            tell_unnamed(self.url)
        self._loops = Loops(self._ctx, self._another)
        fork.register(self._loops)

    def __del__(self) -> None:
        loops = getattr(self, "_loops", None)
        if loops is not None:
            loops.forgotten()

    def _another(self) -> Context:
        """Return the client state for one more event loop."""
        first = self._ctx
        with opening(), needed():
            module, url = find(self._source)
            opened = module.open_aio(url)
        another = Context(opened, AioRuntime(), first.naming, first.hold_class)
        another.source = self._source
        return another

    def _here(self) -> Context:
        """Return the client state of the running loop; without one, that of the first loop."""
        ctx = self._ctx
        if ctx.runs._thread_id == get_ident():
            return ctx
        loop = _get_running_loop()
        return ctx if loop is None else self._loops.find(loop)

    async def _close(self) -> None:
        await self._loops.close()

    def lock(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        reentrant: bool = False,
        auto_renew: bool = True,
        max_hold: float | None = None,
        min_hold: float = 0.0,
        on_lost: OnLost | None = None,
        cancel_on_lost: bool = False,
        meta: str = "",
    ) -> AsyncLock:
        """A lock on ``name``.

        ``ttl``: length of the lease in seconds, renewed after each third of it while held (a hard
        limit with ``auto_renew=False``). ``timeout``: seconds that ``with`` waits before it raises
        ``NotAcquired``; None, -1: no limit. ``reentrant``: the same thread or task may enter again;
        the entries are counted. ``max_hold``: maximum seconds of renewal. ``min_hold``: minimum
        seconds for which the name stays occupied, even if released earlier. ``on_lost(hold,
        reason)`` is called on the renewer's task. ``cancel_on_lost``: the task inside ``async
        with`` is cancelled on a loss, and ``LockLost`` raised. ``meta``: text that listings show.
        """
        wish = self._wish(
            Kind.LOCK,
            name,
            ttl=ttl,
            timeout=timeout,
            auto_renew=auto_renew,
            max_hold=max_hold,
            min_hold=min_hold,
            on_lost=on_lost,
            cancel_on_lost=cancel_on_lost,
            meta=meta,
        )
        return AsyncLock(*wish, reentrant)

    def semaphore(
        self,
        name: str,
        permits: int,
        *,
        weight: int = 1,
        on_conflict: OnConflict = "error",
        ttl: float | None = None,
        timeout: float | None = None,
        auto_renew: bool = True,
        on_lost: OnLost | None = None,
        meta: str = "",
    ) -> AsyncSemaphore:
        """A semaphore: at most ``permits`` are held at a time; each claim takes ``weight`` of them.

        All clients must give the same number of permits. With ``on_conflict="resize"``, a line of
        claims with another number is changed to this number, without an error. Other options: see
        ``lock``.
        """
        wish = self._wish(
            Kind.SEMAPHORE,
            name,
            capacity=checks.count("permits", permits),
            weight=checks.count("weight", weight),
            ttl=ttl,
            timeout=timeout,
            auto_renew=auto_renew,
            on_lost=on_lost,
            meta=meta,
        )
        return AsyncSemaphore(*wish, on_conflict)

    def rwlock(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        auto_renew: bool = True,
        on_lost: OnLost | None = None,
        meta: str = "",
    ) -> AsyncRWLock:
        """A read-write lock with the sides ``.read`` and ``.write``; options as for ``lock``."""
        sides = [
            self._wish(
                Kind.RWLOCK,
                name,
                capacity=RWLOCK_CAPACITY,
                weight=weight,
                ttl=ttl,
                timeout=timeout,
                auto_renew=auto_renew,
                on_lost=on_lost,
                meta=meta,
            )
            for weight in (1, RWLOCK_CAPACITY)
        ]
        return AsyncRWLock(AsyncRWSide(*sides[0]), AsyncRWSide(*sides[1]))

    def all(self, *locks: str | AsyncLock, timeout: float | None = None) -> AsyncMultiLock:
        """Several names, or locks of this client, as one lock: all held or none."""
        ctx = self._here()
        parts = [self.lock(one) if isinstance(one, str) else one for one in locks]
        return AsyncMultiLock(ctx, [twin(one, ctx) for one in parts], timeout)

    def election(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        on_lost: OnLost | None = None,
        meta: str = "",
    ) -> AsyncElection:
        """An election: one leader among all candidates for this name."""
        wish = self._wish(Kind.ELECTION, name, ttl=ttl, timeout=timeout, on_lost=on_lost, meta=meta)
        return AsyncElection(*wish)

    def queue(
        self,
        name: str,
        *,
        min_interval: float = 0.0,
        interval_from: Literal["ack", "take"] = "ack",
        rate: float | None = None,
        ttl: float | None = None,
        max_attempts: int = 10,
        retry_delay: float = 1.0,
        retry_delay_max: float = 300.0,
        on_dead: Literal["skip", "block"] = "skip",
        dedup_window: float = 3600.0,
    ) -> AsyncQueue:
        """A serial queue: jobs are accepted now and executed in order, one at a time per group.

        ``min_interval``: minimum seconds between two executions in one group, over all workers, by
        the store's clock. It counts from the end of the last execution (``interval_from="ack"``) or
        from its start (``"take"``). ``rate``: maximum deliveries per second in the whole queue.
        ``ttl``: length of a delivery's lease in seconds, renewed after each third of it; a worker
        that dies loses its job when the lease expires. ``max_attempts``: deliveries before a
        failing job is a dead letter. ``retry_delay``: seconds before the second attempt; it doubles
        with each attempt, up to ``retry_delay_max``. ``on_dead``: after a dead letter, its group
        continues (``"skip"``) or stops (``"block"``). ``dedup_window``: seconds for which the store
        remembers the id of a job.
        """
        from .queue import AsyncQueue  # because few programs have queues

        return AsyncQueue(
            self._here(),
            checks.name(name),
            self._queue_options(
                min_interval=min_interval,
                interval_from=interval_from,
                rate=rate,
                ttl=ttl,
                max_attempts=max_attempts,
                retry_delay=retry_delay,
                retry_delay_max=retry_delay_max,
                on_dead=on_dead,
                dedup_window=dedup_window,
            ),
        )

    async def queues(self, prefix: str = "") -> list[QueueRecord]:
        """The queues whose name begins with ``prefix``, with the number of jobs in each state."""
        return await self._survey(prefix)

    def guard(
        self,
        name: str,
        *,
        ttl: float,
        stale: float = 0.0,
        timeout: float | None = 30.0,
        on_timeout: Literal["error", "stale", "compute"] = "error",
        on_store_error: Literal["error", "compute"] = "error",
        refresh: Literal["foreground", "background"] = "foreground",
        lease: float = 5.0,
        early: float = 0.0,
        jitter: float = 0.0,
        failure_ttl: float = 0.0,
        failure_ttl_max: float = 60.0,
        local_ttl: float = 0.0,
        local_entries_max: int = 1000,
        max_bytes: int | None = None,
        codec: Codec | None = None,
        cache: object = None,
    ) -> AsyncGuard:
        """A refresh guard: when a value expires, one caller in the whole cluster computes it.

        The value is fresh for ``ttl`` seconds. After that it is served for ``stale`` more seconds,
        while one caller computes the next: in the ``"foreground"`` (that caller waits for its
        result) or in the ``"background"``. If there is no value to serve, the other callers wait
        ``timeout`` seconds; ``on_timeout``: then raise ``RefreshTimeout`` (``"error"``), serve the
        ``"stale"`` value of any age, or ``"compute"`` without storing. ``on_store_error``: the
        action if the store doesn't answer. ``lease``: seconds for which the others wait after the
        computing process died; the lease is renewed while that process lives. ``early``: sometimes
        compute before the ttl ends; the longer it takes, the earlier (1.0 is good; 0: never).
        ``jitter``: shorten each ttl by up to this part. ``failure_ttl``: seconds from a failure to
        the next computation, doubling up to ``failure_ttl_max``. ``local_ttl``: seconds for which
        this process serves a value without a request, at most ``local_entries_max`` values.
        ``max_bytes``: limit of one value. ``codec``: converts values that are not bytes, text or
        JSON. ``cache``: keep the values in this external cache, and only the refresh leases in the
        store (see ``holdfast.caches``).
        """
        from ..caches.aio import port  # because few programs have guards
        from .guard import AsyncGuard

        given = self._guard_options(
            ttl=ttl,
            stale=stale,
            timeout=timeout,
            on_timeout=on_timeout,
            on_store_error=on_store_error,
            refresh=refresh,
            lease=lease,
            early=early,
            jitter=jitter,
            failure_ttl=failure_ttl,
            failure_ttl_max=failure_ttl_max,
            local_ttl=local_ttl,
            local_entries_max=local_entries_max,
            max_bytes=max_bytes,
            codec=codec,
            cache=port(cache),
        )
        return AsyncGuard(self._here(), checks.name(name), given)

    def cached(
        self, template: str, *, vary: Iterable[str] | None = None, **options: Unpack[GuardOptions]
    ) -> AsyncCaching:
        """A decorator: calls of the function go through a guard, with ``guard``'s options.

        ``template`` is the guard's name; filled with the call's arguments, it is the key of a
        value: ``@locks.cached("user:{user_id}", ttl=60, stale=300)``. Calls with the same key share
        one value, so the template must contain each parameter of the function. If the value depends
        on some parameters only, name these in ``vary`` (``()`` for none). The decorated function
        has ``invalidate(...)``, with the same arguments, and ``guard``.
        """
        from .guard import AsyncCaching

        return AsyncCaching(self.guard(template, **options), template, vary)

    async def guards(self, prefix: str = "") -> list[GuardRecord]:
        """The guards whose name begins with ``prefix``, with their counts."""
        return await self._guard_survey(prefix)

    async def adopt(
        self, token: str, *, auto_renew: bool = True, on_lost: OnLost | None = None
    ) -> AsyncHold:
        """Continue a hold that another process detached; ``NotHeld`` if it ended or was adopted."""
        return await self._adopt(token, auto_renew, on_lost)  # type: ignore[return-value]

    async def inspect(self, prefix: str = "", *, exact: bool = False) -> list[LineRecord]:
        """List holders and waiters: the lines whose name begins with (or is) ``prefix``."""
        return await self._inspect(prefix, exact)

    async def break_(self, name: str, fence: int) -> bool:
        """End the hold or claim of another owner, named by its fence; False if it isn't there.

        The owner notices at its next renewal, at the latest after a third of its ttl. Until then it
        can still act as the holder; the fence protects against that.
        """
        return await self._break(name, fence)

    async def close(self) -> None:
        """End the connection; remaining holds are released and reported as lost."""
        await self._close()

    async def __aenter__(self) -> Self:
        require_loop()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self.close()

    def __reduce__(self) -> Any:
        return _revive, (portable(self._source), self._ttl, self._ctx.label)


def _revive(source: str, ttl: float, label: str | None) -> AsyncClient:
    return AsyncClient(source, ttl=ttl, label=label)
