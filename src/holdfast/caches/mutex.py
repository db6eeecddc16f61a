"""The mutex of a region of dogpile.cache, as a lock that holds in the whole cluster."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Any

from ..core.checks import shown
from ..core.model import NAME_BYTES_MAX
from ..errors import ConfigError, LockLost
from ..runtime.blocking import BlockingRuntime

if TYPE_CHECKING:
    from ..sync import Client, Hold, Lock


class Mutex:
    """A mutex for dogpile.cache: shared by the threads of a process that want one key.

    Another thread may call ``release``, as a background creator does. The call ends the hold of the
    calling thread or, if that thread has none, the oldest hold. So a thread whose hold was lost
    doesn't release a hold that another thread has acquired since.
    """

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        #: The holds that aren't released, each with the thread that acquired it. Threads share the
        #: list, so each operation on it is atomic.
        self._holds: list[tuple[object, Hold]] = []

    def acquire(self, wait: bool = True) -> bool:
        """Acquire the mutex; return False if it is taken and ``wait`` is False. ``NotAcquired``
        after the time-out."""
        hold = self._lock.acquire() if wait else self._lock.acquire(blocking=False)
        if hold is None:
            return False
        self._holds.append((BlockingRuntime.flow(), hold))
        return True

    def release(self) -> None:
        """Release the mutex. A lost hold is no error, because there is nothing to release. If the
        store doesn't answer, this is only logged, because the value is stored; the hold is
        withdrawn when the store answers."""
        here = BlockingRuntime.flow()
        held = list(self._holds)
        for one in sorted(held, key=lambda one: one[0] != here):
            try:
                self._holds.remove(one)
            except ValueError:
                continue  # another thread has released it
            with contextlib.suppress(LockLost), one[1]:
                pass  # the end of this `with` handles a store that doesn't answer
            return

    def locked(self) -> bool:
        """Return True if the mutex is taken."""
        return self._lock.locked()


def dogpile(
    client: Client,
    *,
    prefix: str = "dogpile:",
    ttl: float | None = None,
    timeout: float | None = None,
    max_hold: float | None = None,
) -> Any:
    """A proxy that lets the creators of a region of dogpile.cache run one at a time in the cluster:
    ``region.configure(..., wrap=[caches.dogpile(client)])``.

    Its mutexes are locks of the client, named by ``prefix`` and the key; the other options are
    options of ``Client.lock``. A mutex is renewed while its process lives, and becomes free after
    ``ttl`` if the process dies. ``max_hold`` ends the hold of a creator that never releases. Make a
    separate proxy for each region.
    """
    try:
        from dogpile.cache.proxy import ProxyBackend
    except ImportError as missing:
        raise ConfigError(f"caches.dogpile() needs dogpile.cache ({missing})") from missing
    if not hasattr(client, "break_") or hasattr(client, "__aenter__"):
        raise ConfigError(f"caches.dogpile() takes a holdfast.Client, not {shown(client)}")

    class Mutexes(ProxyBackend):
        """The backend of the region, with other mutexes."""

        def get_mutex(self, key: str) -> Any:
            """Return the mutex of a key."""
            name = prefix + str(key)
            if len(name.encode(errors="surrogatepass")) > NAME_BYTES_MAX or not name.isprintable():
                told = name.encode(errors="surrogatepass")
                name = prefix + hashlib.sha256(told).hexdigest()
            return Mutex(client.lock(name, ttl=ttl, timeout=timeout, max_hold=max_hold))

    return Mutexes()  # type: ignore[no-untyped-call]
