"""Call every public method with each argument in turn of a wrong kind.

Each call fails with one clear error that names the argument, and does nothing in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from holdfast import AsyncClient, Client, ConfigError

DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


class Unshowable:
    """An object whose repr raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


#: Values that a caller can pass by mistake.
ODD: dict[str, Any] = {
    "none": None,
    "bytes": b"x",
    "huge": 10**5000,
    "huge negative": -(10**5000),
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "-1": -1,
    "-0.5": -0.5,
    "0": 0,
    "1.5": 1.5,
    "empty text": "",
    "text with a null": "a\0b",
    "half a surrogate pair": "\ud800",
    "long text": "x" * 100_000,
    "text": "1",
    "list": [1],
    "list of none": [None],
    "mapping": {"a": 1},
    "deep list": DEEP,
    "set": {1},
    "object": object(),
    "unshowable": Unshowable(),
    "long timedelta": timedelta.max,
    "negative timedelta": timedelta.min,
    "complex": 1j,
    "true": True,
}
TEXT = {"text", "text with a null"}
ANY_TEXT = {*TEXT, "empty text"}
WAIT = {"none", "-1", "0", "1.5"}
SPAN = {"0", "1.5"}
PARTS = {"list", "mapping", "set"}
#: Odd values that are valid: by argument in any call, or by call and argument.
FITS: dict[str, set[str]] = {
    "name": TEXT,
    "label": {*TEXT, "none"},
    "ttl": {"1.5", "none"},
    "guard ttl": {"1.5"},
    "timeout": WAIT,
    "reentrant": {"true"},
    "auto_renew": {"true"},
    "max_hold": {"none", "1.5"},
    "min_hold": {*SPAN, "none"},
    "on_lost": {"none"},
    "meta": ANY_TEXT,
    "locks": TEXT,
    "rate": {"none", "inf", "1.5"},
    "min_interval": SPAN,
    "retry_delay": SPAN,
    "retry_delay_max": {"1.5"},
    "dedup_window": SPAN,
    "prefix": ANY_TEXT,
    "stale": SPAN,
    "lease": {"1.5"},
    "early": SPAN,
    "jitter": {"0"},
    "failure_ttl": SPAN,
    "failure_ttl_max": SPAN,
    "local_ttl": SPAN,
    "max_bytes": {"none"},
    "codec": {"none"},
    "cache": {"none", "mapping"},
    "template": TEXT,
    "vary": {"none"},
    "blocking": {"true", "0"},
    "every": {"1.5"},
    "payload": {
        *("none", "bytes", "-1", "-0.5", "0", "1.5", "list", "list of none", "mapping", "true"),
        *(*ANY_TEXT, "huge", "huge negative", "long text"),
    },
    "group": {*TEXT, "none"},
    "jobs group": {*ANY_TEXT, "none"},
    "id": {*TEXT, "none"},
    "delay": {*SPAN, "none"},
    "items": {"list", "list of none", "set", "mapping"},
    "state": {"none"},
    "ids": {"none", "mapping"},
    "keys": {"mapping"},
    "exact": {"true"},
    "drain": {"true"},
    "key": ANY_TEXT,
    "in_": {*SPAN, "none"},
    "reason": set(ODD),  # whatever it is, it is shown
}
#: Other names that the error can use for the argument.
CALLED = {
    "store": ("URL", "store"),
    "template": ("name", "template"),
    "locks": ("name", "all()"),
    "token": ("token",),
    "exact": ("exact", "name"),
    "keys": ("key",),
    "items": ("items", "payload", "job"),
    "call": ("on_lost",),
}


async def done(found: Any) -> Any:
    """Return the result of a call, on either face."""
    return await found if inspect.isawaitable(found) else found


class World:
    """A client of one face, and calls on it with valid arguments."""

    def __init__(self, client: Any, plain: Callable[..., Any]) -> None:
        self.client, self.plain = client, plain
        self.queue = client.queue("odd-queue")
        self.guard = client.guard("odd-guard", ttl=5)

    async def hold(self, use: Callable[[Any], Any]) -> None:
        hold = await done(self.client.lock("used", timeout=5).acquire())
        try:
            await done(use(hold))
        finally:
            await done(hold.release())

    async def job(self, use: Callable[[Any], Any]) -> None:
        queue = self.client.queue("odd-jobs")
        await done(queue.purge())
        await done(queue.put(1))
        await done(use(await done(queue.take(5))))

    async def acquire(self, **given: Any) -> None:
        hold = await done(self.client.lock("odd-acquire").acquire(**given))
        if hold is not None:
            await done(hold.release())

    async def observe(self, every: Any) -> None:
        """Start to observe: only a wrong argument fails, because no second leader comes."""
        seen = self.client.election("nobody").observe(every=every)
        if hasattr(seen, "__anext__"):
            await anext(seen)
            await seen.aclose()
        else:
            next(seen)
            seen.close()

    def calls(self) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
        """Return each public call with its valid arguments."""
        return self._locks() | self._options() | self._queues() | self._rest()

    def _locks(self) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
        c = self.client
        lease: dict[str, Any] = {"name": "n", "ttl": 3.0, "timeout": 0.1, "on_lost": None}
        shape = {**lease, "auto_renew": True, "meta": ""}
        return {
            "lock": (c.lock, {**shape, "reentrant": False, "max_hold": 3.0, "min_hold": 0.0}),
            "semaphore": (
                c.semaphore,
                {**shape, "permits": 2, "weight": 1, "on_conflict": "error"},
            ),
            "rwlock": (c.rwlock, shape),
            "election": (c.election, {**lease, "meta": ""}),
            "all": (
                lambda locks, timeout: c.all(locks, timeout=timeout),
                {"locks": "a", "timeout": 0.1},
            ),
        }

    def _options(self) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
        c = self.client
        return {
            "queue": (
                c.queue,
                {
                    "name": "q",
                    "min_interval": 0.0,
                    "interval_from": "ack",
                    "rate": None,
                    "ttl": None,
                    "max_attempts": 3,
                    "retry_delay": 1.0,
                    "retry_delay_max": 2.0,
                    "on_dead": "skip",
                    "dedup_window": 1.0,
                },
            ),
            "guard": (
                c.guard,
                {
                    "name": "g",
                    "ttl": 1.0,
                    "stale": 0.0,
                    "timeout": 1.0,
                    "lease": 5.0,
                    "on_timeout": "error",
                    "on_store_error": "error",
                    "refresh": "foreground",
                    "early": 0.0,
                    "jitter": 0.0,
                    "failure_ttl": 0.0,
                    "failure_ttl_max": 1.0,
                    "local_ttl": 0.0,
                    "local_entries_max": 5,
                    "max_bytes": None,
                    "codec": None,
                    "cache": None,
                },
            ),
        }

    def _queues(self) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
        q, plain = self.queue, self.plain
        return {
            "put": (q.put, {"payload": 1, "group": None, "id": None, "delay": 0.0}),
            "put_many": (q.put_many, {"items": [1], "group": None}),
            "take_many": (lambda limit: q.take_many(limit, 0), {"limit": 1}),
            "ack_many": (q.ack_many, {"jobs": []}),
            "worker": (q.worker, {"handler": plain, "concurrency": 1, "drain": True}),
            "jobs": (q.jobs, {"state": None, "group": None, "limit": 1}),
            "retry_dead": (q.retry_dead, {"ids": []}),
            "purge": (q.purge, {"state": "dead", "ids": []}),
            "retry": (
                lambda in_, reason: self.job(lambda j: j.retry(in_, reason)),
                {"in_": 1.0, "reason": ""},
            ),
            "dead_letter": (
                lambda reason: self.job(lambda j: j.dead_letter(reason)),
                {"reason": ""},
            ),
        }

    def _rest(self) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
        c, g, plain = self.client, self.guard, self.plain
        return {
            "cached": (
                lambda template, vary: c.cached(template, vary=vary, ttl=1.0)(plain),
                {"template": "t", "vary": ()},
            ),
            "cached of a function": (
                c.cached("u", ttl=1.0),
                {"function": plain},
            ),
            "lock of a function": (c.lock("u"), {"function": plain}),
            "queues": (c.queues, {"prefix": ""}),
            "guards": (c.guards, {"prefix": ""}),
            "inspect": (c.inspect, {"prefix": "n", "exact": False}),
            "supports": (c.supports, {"what": "detach"}),
            "break_": (c.break_, {"name": "n", "fence": 1}),
            "adopt": (c.adopt, {"token": "x"}),
            "acquire": (self.acquire, {"blocking": True, "timeout": 0.1}),
            "extend": (lambda ttl: self.hold(lambda h: h.extend(ttl)), {"ttl": 1.0}),
            "on_lost": (lambda call: self.hold(lambda h: h.on_lost(call)), {"call": plain}),
            "resize": (lambda permits: c.semaphore("rs", 2).resize(permits), {"permits": 2}),
            "get": (
                lambda compute, key: g.get(compute, key=key),
                {"compute": plain, "key": "k"},
            ),
            "get_many": (
                g.get_many,
                {"keys": [], "compute": plain},
            ),
            "invalidate": (lambda key: g.invalidate(key, "k"), {"key": "k"}),
            "entry": (g.inspect, {"key": "k"}),
        }

    async def standing(self) -> Any:
        """Return what the store contains."""
        lines = await done(self.client.inspect())
        queues = await done(self.client.queues())
        return [(one.name, len(one.holders), len(one.waiters)) for one in lines], [
            q[:4] for q in queues
        ]


def fits(call: str, argument: str, odd: str) -> bool:
    special = FITS.get(f"{call} {argument}")
    return odd in (FITS.get(argument, set()) if special is None else special)


async def _try(world: World, call: str) -> list[str]:
    """Return the wrong reactions to odd arguments of this call."""
    function, right = world.calls()[call]
    wrong = []
    for argument in right:
        for odd, value in ODD.items():
            if fits(call, argument, odd):
                continue
            before = await world.standing()
            given = {**right, argument: value}
            try:
                await done(function(**given) if argument != "function" else function(value))
            except (ConfigError, TypeError, ValueError) as refusal:
                said = str(refusal)
                if not any(word in said for word in CALLED.get(argument, (argument,))):
                    wrong.append(f"{argument}={odd}: not named: {said[:80]!a}")
                if len(said) > 700:
                    wrong.append(f"{argument}={odd}: {len(said)} characters")
            except BaseException as failure:
                wrong.append(f"{argument}={odd}: {type(failure).__name__}: {str(failure)[:80]!a}")
            else:
                wrong.append(f"{argument}={odd}: accepted")
            if await world.standing() != before and call not in ("retry", "dead_letter"):
                wrong.append(f"{argument}={odd}: something was done in the store")
    return wrong


def _plain(*given: Any) -> int:
    return 1


async def _awaited(*given: Any) -> int:
    return 1


@contextlib.contextmanager
def a_client() -> Iterator[World]:
    with Client("memory://") as client:
        yield World(client, _plain)


with a_client() as _world:
    CALLS = list(_world.calls())


@pytest.mark.parametrize("call", CALLS)
def test_an_odd_argument_is_refused_by_its_name(call: str) -> None:
    async def main() -> list[str]:
        with a_client() as world:
            return await _try(world, call)

    assert asyncio.run(main()) == []


@pytest.mark.parametrize("call", CALLS)
def test_an_odd_argument_is_refused_by_its_name_under_asyncio(call: str) -> None:
    async def main() -> list[str]:
        async with AsyncClient("memory://") as client:
            return await _try(World(client, _awaited), call)

    assert asyncio.run(main()) == []


def test_seconds_are_no_answer_to_whether_to_wait() -> None:
    with Client("memory://") as client, pytest.raises(ConfigError, match="timeout="):
        client.lock("x").acquire(5)  # type: ignore[call-overload]


def test_every_public_call_with_arguments_is_tried() -> None:
    known = {*CALLS, "url", "close", "taking", "take", "consume", "stats", "locked"}
    with a_client() as world:
        for one in (world.client, world.queue, world.guard):
            public = {
                name
                for name, found in inspect.getmembers(type(one), inspect.isfunction)
                if not name.startswith("_")
            }
            assert public <= known, public - known


def test_a_part_of_a_job_that_can_not_be_printed_is_refused_in_words() -> None:
    with Client("memory://") as client, pytest.raises(ConfigError, match="40 digits is no part"):
        client.queue("q").put_many([{10**5000: 1}])
