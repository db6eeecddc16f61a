"""The client for threads."""

from __future__ import annotations

import os
from typing import Any, Self

from ..core import checks
from ..core.client import DEFAULT_TTL_S, ClientBase
from ..core.model import RWLOCK_CAPACITY, Kind, LineRecord
from ..core.semaphore import OnConflict
from ..runtime import fork
from ..runtime.blocking import BlockingRuntime, run_sync
from ..runtime.identity import Owner
from ..url import NativeClient, NativeCluster, find, portable, source
from .locks import Election, Hold, Lock, MultiLock, OnLost, RWLock, RWSide, Semaphore


class Client(ClientBase):
    """Locks in one store, for threads: ``Client("sqlite:///var/lib/app/locks.db")``.

    Without a URL: ``$HOLDFAST_URL``, else the embedded store of this user on this machine. Cheap
    to make, safe to share between threads; connects when first used. Use it as a context manager
    or ``close()`` it; it pickles as its URL. After a fork the child starts with nothing held.
    """

    __slots__ = ()

    def __init__(
        self,
        store: str | os.PathLike[str] | NativeClient | NativeCluster | None = None,
        *,
        ttl: float = DEFAULT_TTL_S,
        label: str | None = None,
    ) -> None:
        origin = source(store)
        module, url = find(origin)
        super().__init__(
            module.open_blocking(url), BlockingRuntime(), Hold, origin, ttl, Owner(label)
        )
        fork.register(self)

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

        ``ttl``: length of the lease in seconds, renewed every third of it while held
        (``auto_renew=False``: a hard limit). ``timeout``: how long ``with`` waits before it
        raises ``NotAcquired``; None waits for ever. ``reentrant``: the same thread or task may
        enter again, counted. ``max_hold``: renewed no longer than this. ``min_hold``: the name
        stays occupied at least this long, even if released sooner. ``on_lost(hold, reason)`` is
        called on the keeper's thread. ``meta``: text for people who look.
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
        """A semaphore: at most ``permits`` held at a time, each claim takes ``weight`` of them.

        All must name the same number of permits; ``on_conflict="resize"`` changes a line that
        has another number to this one, instead of an error. The rest is as for ``lock``.
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
        """An election: one leader among all who campaign under this name."""
        wish = self._wish(Kind.ELECTION, name, ttl=ttl, timeout=timeout, on_lost=on_lost, meta=meta)
        return Election(*wish)

    def adopt(self, token: str, *, auto_renew: bool = True, on_lost: OnLost | None = None) -> Hold:
        """Go on with a hold that another process detached; ``NotHeld`` if it is gone or taken."""
        return run_sync(self._adopt(token, auto_renew, on_lost))  # type: ignore[return-value]

    def inspect(self, prefix: str = "", *, exact: bool = False) -> list[LineRecord]:
        """Who holds what and who waits: the lines whose name begins with (or is) ``prefix``."""
        return run_sync(self._inspect(prefix, exact))

    def break_(self, name: str, fence: int) -> bool:
        """Take the hold or claim with this fence away from its owner; False if it isn't there.

        The owner is told at its next renewal, at the latest after a third of its ttl. Until then
        it may believe that it holds: that is what the fence is for.
        """
        return run_sync(self._break(name, fence))

    def close(self) -> None:
        """End the connection; what is still held is released and told as lost."""
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
    """The client that the bare ``lock()`` uses: made once, at its first use."""
    return _default.get("") or _default.setdefault("", Client())


def lock(name: str, *, ttl: float | None = None, timeout: float | None = None) -> Lock:
    """A lock with no set-up: on ``$HOLDFAST_URL``, else on this user's embedded store.

    >>> with lock("nightly-report"):
    ...     pass
    """
    return default_client().lock(name, ttl=ttl, timeout=timeout)
