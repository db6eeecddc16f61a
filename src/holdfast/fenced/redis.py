"""Keys of a Redis that refuse writes with an older fence.

For the key ``report`` the key ``{report}#fence!`` contains, as text, the greatest fence accepted.
The braces keep both keys in one slot of a cluster. If a key has a hash tag, the key of its fence
has the same one: the fence of ``{user:7}:cart`` is in ``{user:7}:cart#fence``. The endings
``#fence!`` and ``#fence`` differ, so that no two keys share a fence. One script compares the
fences, notes the new one and carries out the command, as one step.

No driver is imported: the caller passes a redis-py client.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from ..core import checks
from ..errors import ConfigError, HoldfastError
from .fence import Fence, number, refusal

#: The types that redis-py accepts for a key, and for an argument.
Text = str | bytes
Value = str | bytes | bytearray | memoryview | int | float
#: Maximum number of arguments of a command: Lua can pass about 8,000.
ARGUMENTS_MAX = 7000
#: Maximum seconds for which a fence is remembered (``remember``): ten years.
REMEMBER_S_MAX = 10 * 365 * 86_400.0
_COMMAND = re.compile(r"[A-Za-z][A-Za-z0-9._]{0,63}")

# Fences are compared as texts, because Lua's numbers are exact only up to 2**53. The fence is noted
# before the command is carried out. If the script ends between the two (no permission, no memory),
# older writers are refused although nothing was written, which is safe. With the other order, an
# older writer could write after a newer one.
_SCRIPT = """
local mine, life, seen = ARGV[1], ARGV[2], redis.call('GET', KEYS[1]) or '0'
if not string.find(seen, '^%d+$') then return {-1, seen} end
if #seen > #mine or (#seen == #mine and seen > mine) then return {0, seen} end
if life == '0' then redis.call('SET', KEYS[1], mine)
else redis.call('SET', KEYS[1], mine, 'PX', life) end
return {1, redis.call(ARGV[3], KEYS[2], unpack(ARGV, 4))}
"""


class Client(Protocol):
    """The methods of a redis-py client (``Redis``, ``RedisCluster``; blocking or asyncio) that are
    used here."""

    def register_script(self, script: Any) -> Any:
        """Return the script as an object to call with ``keys`` and ``args``."""
        ...

    def get(self, name: Any) -> Any:
        """Return the text of a key."""
        ...


class _Request(NamedTuple):
    """One call of the script."""

    keys: tuple[bytes, bytes]
    args: tuple[Value, ...]
    fence: int


class _Writer:
    """The shared part of `FencedRedis` and `AsyncFencedRedis`: all except the script's call."""

    __slots__ = ("_client", "_life", "_script")

    def __init__(self, client: Client, *, remember: float | timedelta | None = None) -> None:
        if not hasattr(client, "register_script") or hasattr(client, "command_stack"):
            raise ConfigError(
                f"a redis.Redis, redis.RedisCluster or one of redis.asyncio is needed, not a "
                f"{type(client).__name__}"
            )
        self._client: Any = client
        self._script: Any = self._client.register_script(_SCRIPT)
        self._life = 0
        if remember is not None:
            self._life = round(checks.seconds("remember", remember, 1.0, REMEMBER_S_MAX) * 1000)

    def fence_key(self, key: Text) -> bytes:
        """Return the name of the key with the greatest fence accepted for ``key``.

        Both keys are in the same slot of a cluster. Delete the returned key to forget the fence.
        """
        return _fence_key(_bytes(key))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._client).__name__})"

    def _request(self, fence: Fence, command: Any, key: Text, args: Sequence[Value]) -> _Request:
        mine = number(fence)
        if not isinstance(command, str) or not _COMMAND.fullmatch(command):
            raise ConfigError(f"a command is one word, such as 'SET', not {command!r:.80}")
        if len(args) > ARGUMENTS_MAX:
            raise ConfigError(f"{len(args)} arguments are too many: {ARGUMENTS_MAX} at most")
        ours = _bytes(key)
        keys = _fence_key(ours), ours
        return _Request(keys, (str(mine), str(self._life), command, *args), mine)


class FencedRedis(_Writer):
    """Keys of a Redis that refuse writes with a smaller fence than the greatest accepted one.

    ``client`` is your ``redis.Redis`` or ``redis.RedisCluster``, with any settings; it stays open.
    For asyncio there is :class:`AsyncFencedRedis`, with the same methods to await::

        fenced = FencedRedis(redis.Redis())
        with locks.lock("report") as hold:
            fenced.set(hold, "report", "day,total")
            fenced.execute(hold, "HSET", "report:state", "by", "me")

    Guarantee, as long as all writers of a key use a fenced writer:

    * The check and the write are one step for every other client. An equal fence is accepted,
      because one holder writes many times.
    * Once a write can be seen, smaller fences are refused, as long as the server keeps acknowledged
      data. A server that loses the write loses its fence as well: a restored backup has the writes
      and the fences of its time.

    The fence of a key is kept without a time limit, in another key (``fence_key``). With
    ``remember`` it is forgotten this number of seconds after the last accepted write: choose much
    more than the longest delay of a process, a machine or a message. Both keys should be in a
    server with ``maxmemory-policy noeviction``, which evicts neither the data nor the fence.

    The object may be used like ``client``: from any thread, on both sides of a fork. A client that
    repeats an unanswered command (``retry``) can carry it out twice, as it can without this class.

    Errors: ``FenceRejected``, which contains both fences (nothing was written); ``LockLost`` or
    ``NotHeld`` from the hold, before anything is sent; ``ConfigError`` for an invalid fence, key or
    client, or if another program wrote to the key of the fence; the driver's own errors. A command
    that the server refuses (``WRONGTYPE``) writes nothing, but the noted fence can be greater.
    """

    __slots__ = ()

    def __init__(self, client: Client, *, remember: float | timedelta | None = None) -> None:
        super().__init__(client, remember=remember)
        if _awaits(client):
            raise ConfigError("this client is one of asyncio: use AsyncFencedRedis")

    def set(
        self, fence: Fence, key: Text, value: Value, *, ttl: float | timedelta | None = None
    ) -> None:
        """Write a value, which expires after ``ttl`` seconds if given.

        Raises ``FenceRejected`` if a later holder has written; see the class for other errors.
        """
        self.execute(fence, "SET", key, value, *_life(ttl))

    def delete(self, fence: Fence, key: Text) -> bool:
        """Delete a key, but not its fence; return whether it was there.

        Raises ``FenceRejected`` if a later holder has written; see the class for other errors.
        """
        return bool(self.execute(fence, "DEL", key))

    def execute(self, fence: Fence, command: str, key: Text, *args: Value) -> Any:
        """Carry out a command whose first argument is its only key, and return its answer.

        For example ``execute(hold, "HSET", "order:42", "state", "paid")``. The answer is a list
        where the driver would make a dict. Raises ``FenceRejected`` if a later holder has written;
        see the class.
        """
        request = self._request(fence, command, key, args)
        return _answer(request, self._script(keys=request.keys, args=request.args))

    def fence(self, key: Text) -> int:
        """Return the greatest fence accepted for a key; 0 if none."""
        return _seen(self._client.get(self.fence_key(key)), key)


class AsyncFencedRedis(_Writer):
    """:class:`FencedRedis` for a client of ``redis.asyncio``: the same methods, to await.

    If the await of a write is cancelled, the write can still be carried out.
    """

    __slots__ = ()

    def __init__(self, client: Client, *, remember: float | timedelta | None = None) -> None:
        super().__init__(client, remember=remember)
        if not _awaits(client):
            raise ConfigError("this client isn't one of asyncio: use FencedRedis")

    async def set(
        self, fence: Fence, key: Text, value: Value, *, ttl: float | timedelta | None = None
    ) -> None:
        """Write a value, which expires after ``ttl`` seconds if given.

        Raises ``FenceRejected`` if a later holder has written; see the class for other errors.
        """
        await self.execute(fence, "SET", key, value, *_life(ttl))

    async def delete(self, fence: Fence, key: Text) -> bool:
        """Delete a key, but not its fence; return whether it was there.

        Raises ``FenceRejected`` if a later holder has written; see the class for other errors.
        """
        return bool(await self.execute(fence, "DEL", key))

    async def execute(self, fence: Fence, command: str, key: Text, *args: Value) -> Any:
        """Carry out a command whose first argument is its only key, and return its answer.

        For example ``execute(hold, "HSET", "order:42", "state", "paid")``. The answer is a list
        where the driver would make a dict. Raises ``FenceRejected`` if a later holder has written;
        see the class.
        """
        request = self._request(fence, command, key, args)
        asked: Awaitable[Any] = self._script(keys=request.keys, args=request.args)
        return _answer(request, await asked)

    async def fence(self, key: Text) -> int:
        """Return the greatest fence accepted for a key; 0 if none."""
        return _seen(await self._client.get(self.fence_key(key)), key)


def _awaits(client: Any) -> bool:
    """Return True for an asyncio client."""
    return inspect.iscoroutinefunction(getattr(client, "execute_command", None))


def _bytes(key: Text) -> bytes:
    plain: Any = key.encode() if isinstance(key, str) else key
    if not isinstance(plain, bytes) or not plain:
        raise ConfigError(f"a key must be text or bytes, and not empty: {key!r:.80}")
    return plain


def _fence_key(key: bytes) -> bytes:
    """Return the key for the fence of a key, in the same slot.

    >>> _fence_key(b"report"), _fence_key(b"{user:7}:cart")
    (b'{report}#fence!', b'{user:7}:cart#fence')
    """
    _, opened, rest = key.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    if opened and closed and tag:
        return key + b"#fence"
    if b"}" in key:
        raise ConfigError(
            f"the key {key!r:.80} has a '}}' but no hash tag, so its fence can't be kept in the "
            "same slot of a cluster; give it one, as in {user:7}:cart"
        )
    return b"{" + key + b"}#fence!"


def _life(ttl: float | timedelta | None) -> tuple[Value, ...]:
    if ttl is None:
        return ()
    return "PX", round(checks.seconds("ttl", ttl, 0.001, REMEMBER_S_MAX) * 1000)


def _answer(request: _Request, reply: Any) -> Any:
    """Return the command's answer; raise an error if the command wasn't carried out."""
    match reply:
        case [1, answer]:
            return answer
        case [0, seen]:
            raise refusal(f"the key {_shown(request.keys[1])}", request.fence, int(seen))
        case [-1, _]:
            raise _foreign(request.keys[0])
    raise HoldfastError(f"Redis sent a reply that the fence's script doesn't have: {reply!r:.80}")


def _seen(found: Any, key: Text) -> int:
    try:
        return int(found or 0)
    except ValueError:
        raise _foreign(_fence_key(_bytes(key))) from None


def _foreign(key: bytes) -> ConfigError:
    return ConfigError(
        f"the key {_shown(key)} is kept for a fence, but another program has written to it; "
        "it is left unchanged"
    )


def _shown(key: bytes) -> str:
    return f"{key.decode('utf-8', 'backslashreplace')!r:.80}"
