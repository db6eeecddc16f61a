"""The protocol of a dialect's port; ``blocking`` implements it for threads, ``aio`` for a loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from ..errors import ConfigError, HoldfastError
from ..stores.redis.complaints import ServerSaid, complaint
from ..stores.redis.library import Script, tail
from ..stores.redis.scripts import Call

Reply = Any
T = TypeVar("T")
#: Called with the answer to a request, even if the task that sent it has been cancelled.
Heard = Callable[[Reply], None]


class Port(Protocol):
    """Sends requests to the server, and notifies a waiter that a key has changed.

    Each method ends within ``within`` seconds, or raises ``StoreUnavailable``. The server's answer
    is a ``Reply``; an error reply is returned as a ``ServerSaid``, not raised. If the server lacks
    a script, the port loads the script and calls it again. The reply to an interrupted request is
    never taken for the reply to another request. No undo arrives before the request that it undoes.
    """

    #: The store's name in messages, never with a password.
    label: str

    def ask(self, call: Call, within: float) -> Awaitable[Reply]:
        """Send one call of a script."""
        ...

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Reply | Exception]:
        """Send several calls in one round trip; one answer per call, in order."""
        ...

    async def command(self, *words: bytes, within: float, heard: Heard | None = None) -> Reply:
        """Send one command without a script.

        ``heard`` is called with the answer before any later request is answered; if the time-out
        expires first, ``heard`` is not called.
        """
        ...

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Complete ``work`` even if the task is cancelled. The cancellation waits for ``work``.

        The requests in ``work`` have time limits. In a thread, Ctrl-C interrupts the work.
        """
        ...

    async def watch(self, claim_id: str, key: bytes, call: Call, within: float) -> Reply:
        """Send a waiter's call, and ask for a notification of the next change of ``key``.

        The call must read this key. If the server sends no notifications, the call is sent anyway
        (see ``hears``).
        """
        ...

    def hears(self, claim_id: str) -> bool:
        """Return True if the next change of the watched key wakes the claim, or has woken it."""
        ...

    def hopes(self, claim_id: str) -> bool:
        """Return True if the next ``watch`` will ask the server for notifications.

        ``watch`` asks while the server has given the connection no answer. Some time after a
        refusal, ``watch`` asks again, because an administrator can have granted the right.
        """
        ...

    async def await_change(self, claim_id: str, seconds: float) -> bool:
        """Sleep until the watched key has changed (return True), or ``seconds`` have passed."""
        ...

    def unlisten(self, claim_id: str) -> None:
        """Stop waiting for this claim, if it waits. Never fails, never suspends."""
        ...

    async def scan(self, pattern: bytes, within: float) -> list[bytes]:
        """Return the keys that match, each once, unordered."""
        ...

    def wall(self) -> float:
        """Seconds since 1970, by this machine's clock: for formats with the time of day."""
        ...

    def now(self) -> float:
        """Seconds of a clock that never jumps: to divide a verb's time among its requests."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...

    def forked(self) -> None:
        """Forget the parent's connections in the child of a fork; the next request opens one."""
        ...


def call_of(script: Script, keys: Sequence[bytes], *args: bytes) -> Call:
    """Return the call of a script. Its arguments are ``args`` and two more.

    The first of the two is empty. The second one is a tag, which the connection sets. If the tag
    isn't empty, the script returns ``{tag, reply}``."""
    head = b"*%d\r\n$7\r\nEVALSHA\r\n" % (3 + len(keys) + len(args) + 2)
    parts = [head, tail(script.sha), tail(b"%d" % len(keys)), *map(tail, keys), *map(tail, args)]
    return Call(script, 0, b"".join(parts))


def literal(text: bytes) -> bytes:
    r"""Return a pattern of SCAN that matches only this text.

    >>> literal(b"a*b")
    b'a\\*b'
    """
    return b"".join(b"\\" + bytes((c,)) if c in b"*?[]\\" else bytes((c,)) for c in text)


def refused(error: ServerSaid, label: str) -> HoldfastError:
    """Return the exception for an error reply, with its meaning and remedy."""
    if error.code == "NOPERM" or "user executing the script" in error.text:
        return ConfigError(
            f"{label} refuses: the user lacks a right to the keys or the commands of this "
            f"dialect, which `holdfast doctor` names ({error})"
        )
    return complaint(error, label)
