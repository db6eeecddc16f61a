"""The client for threads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from ..core import checks
from ..core.client import DEFAULT_TTL_S, ClientBase
from ..core.drivers import needed
from ..core.model import RWLOCK_CAPACITY, Kind, LineRecord
from ..core.semaphore import OnConflict
from ..core.unnamed import tell as tell_unnamed
from ..runtime import fork
from ..runtime.blocking import BlockingRuntime, opening, run_sync
from ..runtime.identity import Owner
from ..url import Native, find, portable, source, unnamed
from .locks import Election, Hold, Lock, MultiLock, OnLost, RWLock, RWSide, Semaphore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.guard.codec import Codec
    from ..core.guard.model import GuardRecord
    from ..core.guard.options import GuardOptions
    from ..core.queue.model import QueueRecord
    from .guard import Caching, Guard
    from .queue import Queue


class Client(ClientBase):
    """Locks in one store, for threads: ``Client("sqlite:///var/lib/app/locks.db")``.

    Without a URL it uses ``$HOLDFAST_URL`` or, if that is unset, the embedded store of this user on
    this machine. A client is cheap to make, can be shared between threads, and connects at its
    first use. Use it as a context manager or ``close()`` it; it pickles as its URL. After a fork,
    the child holds nothing.
    """

    __slots__ = ()

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
            opened = module.open_blocking(url)
        super().__init__(opened, BlockingRuntime(), Hold, origin, ttl, Owner(label))
        if unnamed(store):
            tell_unnamed(self.url)
        fork.register(self._ctx)  # a lock or a hold can outlive the client

    def __del__(self) -> None:
        ctx = getattr(self, "_ctx", None)
        if ctx is not None:
            ctx.keeper.forgotten()

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
        meta: str = "",
    ) -> Lock:
        """A lock on ``name``.

        ``ttl``: length of the lease in seconds, renewed after each third of it while held (a hard
        limit with ``auto_renew=False``). ``timeout``: seconds that ``with`` waits before it raises
        ``NotAcquired``; None, -1: no limit. ``reentrant``: the same thread or task may enter again;
        the entries are counted. ``max_hold``: maximum seconds of renewal. ``min_hold``: minimum
        seconds for which the name stays occupied, even if released earlier. ``on_lost(hold,
        reason)`` is called on the renewer's thread. ``meta``: text that listings show.
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
            meta=meta,
        )
        return Lock(*wish, reentrant)

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
    ) -> Semaphore:
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
        return Semaphore(*wish, on_conflict)

    def rwlock(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        auto_renew: bool = True,
        on_lost: OnLost | None = None,
        meta: str = "",
    ) -> RWLock:
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
        return RWLock(RWSide(*sides[0]), RWSide(*sides[1]))

    def all(self, *locks: str | Lock, timeout: float | None = None) -> MultiLock:
        """Several names, or locks of this client, as one lock: all held or none."""
        parts = [self.lock(one) if isinstance(one, str) else one for one in locks]
        return MultiLock(self._ctx, parts, timeout)

    def election(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        on_lost: OnLost | None = None,
        meta: str = "",
    ) -> Election:
        """An election: one leader among all candidates for this name."""
        wish = self._wish(Kind.ELECTION, name, ttl=ttl, timeout=timeout, on_lost=on_lost, meta=meta)
        return Election(*wish)

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
    ) -> Queue:
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
        from .queue import Queue  # because few programs have queues

        return Queue(
            self._ctx,
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

    def queues(self, prefix: str = "") -> list[QueueRecord]:
        """The queues whose name begins with ``prefix``, with the number of jobs in each state."""
        return run_sync(self._survey(prefix))

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
    ) -> Guard:
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
        from ..caches.blocking import port  # because few programs have guards
        from .guard import Guard

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
        return Guard(self._ctx, checks.name(name), given)

    def cached(
        self, template: str, *, vary: Iterable[str] | None = None, **options: Unpack[GuardOptions]
    ) -> Caching:
        """A decorator: calls of the function go through a guard, with ``guard``'s options.

        ``template`` is the guard's name; filled with the call's arguments, it is the key of a
        value: ``@locks.cached("user:{user_id}", ttl=60, stale=300)``. Calls with the same key share
        one value, so the template must contain each parameter of the function. If the value depends
        on some parameters only, name these in ``vary`` (``()`` for none). The decorated function
        has ``invalidate(...)``, with the same arguments, and ``guard``.
        """
        from .guard import Caching

        return Caching(self.guard(template, **options), template, vary)

    def guards(self, prefix: str = "") -> list[GuardRecord]:
        """The guards whose name begins with ``prefix``, with their counts."""
        return run_sync(self._guard_survey(prefix))

    def adopt(self, token: str, *, auto_renew: bool = True, on_lost: OnLost | None = None) -> Hold:
        """Continue a hold that another process detached; ``NotHeld`` if it ended or was adopted."""
        return run_sync(self._adopt(token, auto_renew, on_lost))  # type: ignore[return-value]

    def inspect(self, prefix: str = "", *, exact: bool = False) -> list[LineRecord]:
        """List holders and waiters: the lines whose name begins with (or is) ``prefix``."""
        return run_sync(self._inspect(prefix, exact))

    def break_(self, name: str, fence: int) -> bool:
        """End the hold or claim of another owner, named by its fence; False if it isn't there.

        The owner notices at its next renewal, at the latest after a third of its ttl. Until then it
        can still act as the holder; the fence protects against that.
        """
        return run_sync(self._break(name, fence))

    def close(self) -> None:
        """End the connection; remaining holds are released and reported as lost."""
        run_sync(self._close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _revive, (portable(self._source), self._ttl, self._ctx.label)


def _revive(source: str, ttl: float, label: str | None) -> Client:
    return Client(source, ttl=ttl, label=label)


_default: dict[str, Client] = {}


def default_client() -> Client:
    """The client that the function ``lock()`` uses: made once, at its first use."""
    return _default.get("") or _default.setdefault("", Client())


def lock(name: str, *, ttl: float | None = None, timeout: float | None = None) -> Lock:
    """A lock without set-up: on ``$HOLDFAST_URL``, else on this user's embedded store.

    >>> with lock("nightly-report"):
    ...     pass
    """
    return default_client().lock(name, ttl=ttl, timeout=timeout)
