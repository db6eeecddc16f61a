"""The connection as a dialect needs it. For threads it is in ``blocking``, for a loop in
``aio``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from ..errors import ConfigError, HoldfastError
from ..stores.redis.complaints import ServerSaid, complaint
from ..stores.redis.library import Script, tail
from ..stores.redis.scripts import Call

Reply = Any
T = TypeVar("T")
#: Called with the answer to a request, also when its sender was cancelled meanwhile.
Heard = Callable[[Reply], None]


class Port(Protocol):
    """How requests reach the server, and how a waiter hears that a key has changed.

    Each method ends within ``within`` seconds, or raises ``StoreUnavailable``. What the server
    answers is a ``Reply``; an error reply is the value ``ServerSaid``, not raised. A script that
    the server doesn't know is loaded and sent again, unseen. A request that is interrupted never
    leaves its reply to be read by another, and can't be overtaken by its undo.
    """

    #: What people see in messages; never with a password.
    label: str

    def ask(self, call: Call, within: float) -> Awaitable[Reply]:
        """Send one call of a script."""
        ...

    async def ask_many(self, calls: Sequence[Call], within: float) -> list[Reply | Exception]:
        """Send many in one round trip; one answer per call, in order."""
        ...

    async def command(self, *words: bytes, within: float, heard: Heard | None = None) -> Reply:
        """Send one command that is no script.

        ``heard`` gets the answer before anything that is sent later is answered. It is not called
        when no answer comes, or none before the time-out has expired.
        """
        ...

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to its end what a cancellation must not cut in two; the task is cancelled after it.

        The requests in it are bounded, so this is. Ctrl-C in a thread cuts it all the same.
        """
        ...

    async def watch(self, claim_id: str, key: bytes, call: Call, within: float) -> Reply:
        """Send the call of a claim that waits, which reads this key: its next change is heard.

        Where the server tells of no changes the call is sent all the same (see ``hears``).
        """
        ...

    def hears(self, claim_id: str) -> bool:
        """Will a change of the key that this claim watches be heard, or has it been already?"""
        ...

    def hopes(self, claim_id: str) -> bool:
        """Isn't it known whether changes are told, and will the next ``watch`` ask?

        A server may refuse for a moment, or until somebody gives the right.
        """
        ...

    async def await_change(self, claim_id: str, seconds: float) -> bool:
        """Sleep until the watched key has changed (True), or ``seconds`` have passed."""
        ...

    def unlisten(self, claim_id: str) -> None:
        """The claim waits no more. Never fails, never suspends; does nothing if it never did."""
        ...

    async def scan(self, pattern: bytes, within: float) -> list[bytes]:
        """The keys that match, each once, in no order."""
        ...

    def wall(self) -> float:
        """Seconds since 1970, by the clock of this machine: for formats that write it down."""
        ...

    def now(self) -> float:
        """Seconds by a clock that never jumps: to share the time of a verb among its requests."""
        ...

    async def close(self) -> None:
        """End the connections."""
        ...

    def forked(self) -> None:
        """We are the child of a fork: forget the parent's connections, and start lazily."""
        ...


def call_of(script: Script, keys: Sequence[bytes], *args: bytes) -> Call:
    """A script's call. It finds two arguments more behind its own: nothing, and the tag that its
    reply must carry, ``{tag, reply}``, unless that is empty."""
    head = b"*%d\r\n$7\r\nEVALSHA\r\n" % (3 + len(keys) + len(args) + 2)
    parts = [head, tail(script.sha), tail(b"%d" % len(keys)), *map(tail, keys), *map(tail, args)]
    return Call(script, 0, b"".join(parts))


def literal(text: bytes) -> bytes:
    r"""A pattern of SCAN that matches just this text.

    >>> literal(b"a*b")
    b'a\\*b'
    """
    return b"".join(b"\\" + bytes((c,)) if c in b"*?[]\\" else bytes((c,)) for c in text)


def refused(error: ServerSaid, label: str) -> HoldfastError:
    """The exception for an error reply: what it means, what to do."""
    if error.code == "NOPERM" or "user executing the script" in error.text:
        return ConfigError(
            f"{label} refuses: the user lacks a right to the keys or the commands of this "
            f"dialect, which `holdfast doctor` names ({error})"
        )
    return complaint(error, label)
