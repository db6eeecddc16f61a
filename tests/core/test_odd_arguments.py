"""Call every public method with each argument in turn of a wrong kind.

Each call fails with one clear error that names the argument, and does nothing in the store.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
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
    "none": None, "bytes": b"x", "huge": 10**5000, "huge negative": -(10**5000),
    "nan": math.nan, "inf": math.inf, "-inf": -math.inf, "complex": 1j, "true": True,
    "-1": -1, "-0.5": -0.5, "0": 0, "1.5": 1.5,
    "empty text": "", "text": "1", "text with a null": "a\0b", "long text": "x" * 100_000,
    "half a surrogate pair": "\ud800", "object": object(), "unshowable": Unshowable(),
    "list": [1], "list of none": [None], "mapping": {"a": 1}, "deep list": DEEP, "set": {1},
    "long timedelta": timedelta.max, "negative timedelta": timedelta.min,
}  # fmt: skip
TEXT = ["text", "text with a null"]
ANY_TEXT = [*TEXT, "empty text"]
SPAN = ["0", "1.5"]
NUMBERS = ["-1", "-0.5", *SPAN, "huge", "huge negative"]
#: Odd values that are valid: by argument in any call, or by call and argument.
FITS = {
    argument: {*values}
    for arguments, values in {
        "name, locks, template": TEXT,
        "prefix, key, meta": ANY_TEXT,
        "group, id": [*TEXT, "none"],
        "jobs group": [*ANY_TEXT, "none"],
        "min_interval, retry_delay, dedup_window, stale": SPAN,
        "early, failure_ttl, failure_ttl_max, local_ttl": SPAN,
        "min_hold, delay, in_": [*SPAN, "none"],
        "guard ttl, retry_delay_max, lease": ["1.5"],
        "ttl, max_hold": ["1.5", "none"],
        "reentrant, auto_renew, exact, drain": ["true"],
        "on_lost, max_bytes, codec, vary, state": ["none"],
        "timeout": ["none", "-1", *SPAN],
        "rate": ["none", "inf", "1.5"],
        "jitter": ["0"],
        "cache, ids": ["none", "mapping"],
        "blocking": ["true", "0"],
        "payload": [*ANY_TEXT, *NUMBERS, "long text", "none", "bytes", "list", "list of none"],
        "items": ["list", "list of none", "set", "mapping"],
        "keys": ["mapping"],
        "reason": [*ODD],  # whatever it is, it is shown
    }.items()
    for argument in arguments.split(", ")
}
FITS["payload"] |= {"mapping", "true"}
#: Other names that the error can use for the argument.
CALLED = {
    "template": ("name", "template"),
    "locks": ("name", "all()"),
    "exact": ("exact", "name"),
    "keys": ("key",),
    "items": ("items", "payload", "job"),
    "call": ("on_lost",),
}


async def done(found: Any) -> Any:
    """Return the result of a call, on either face."""
    return await found if inspect.isawaitable(found) else found


Call = tuple[Callable[..., Any], dict[str, Any]]


def valid(function: Callable[..., Any], **required: Any) -> dict[str, Any]:
    """Return valid arguments of a function: its defaults, and these."""
    return {
        name: required.get(name, one.default)
        for name, one in inspect.signature(function).parameters.items()
        if name != "cancel_on_lost"
    }


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

    def calls(self) -> dict[str, Call]:
        """Return each public call with its valid arguments."""
        c, plain = self.client, self.plain
        makers = {"lock": c.lock, "rwlock": c.rwlock, "election": c.election, "queue": c.queue}
        return {
            **{name: (make, valid(make, name="n")) for name, make in makers.items()},
            "semaphore": (c.semaphore, valid(c.semaphore, name="s", permits=2)),
            "guard": (c.guard, valid(c.guard, name="g", ttl=1.0)),
            "all": (
                lambda locks, timeout: c.all(locks, timeout=timeout),
                {"locks": "a", "timeout": 0.1},
            ),
            "cached": (
                lambda template, vary: c.cached(template, vary=vary, ttl=1.0)(plain),
                {"template": "t", "vary": ()},
            ),
            "cached of a function": (c.cached("u", ttl=1.0), {"function": plain}),
            "lock of a function": (c.lock("u"), {"function": plain}),
            "queues": (c.queues, {"prefix": ""}),
            "guards": (c.guards, {"prefix": ""}),
            "inspect": (c.inspect, {"prefix": "n", "exact": False}),
            "supports": (c.supports, {"what": "detach"}),
            "break_": (c.break_, {"name": "n", "fence": 1}),
            "adopt": (c.adopt, {"token": "x"}),
            **self._holds(),
            **self._queues(),
        }

    def _holds(self) -> dict[str, Call]:
        c, g, plain = self.client, self.guard, self.plain
        return {
            "acquire": (self.acquire, {"blocking": True, "timeout": 0.1}),
            "extend": (lambda ttl: self.hold(lambda h: h.extend(ttl)), {"ttl": 1.0}),
            "on_lost": (lambda call: self.hold(lambda h: h.on_lost(call)), {"call": plain}),
            "resize": (lambda permits: c.semaphore("rs", 2).resize(permits), {"permits": 2}),
            "get": (lambda compute, key: g.get(compute, key=key), {"compute": plain, "key": "k"}),
            "get_many": (g.get_many, {"keys": [], "compute": plain}),
            "invalidate": (lambda key: g.invalidate(key, "k"), {"key": "k"}),
            "entry": (g.inspect, {"key": "k"}),
        }

    def _queues(self) -> dict[str, Call]:
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


with Client("memory://") as _client:
    CALLS = list(World(_client, _plain).calls())


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("face", ["threads", "asyncio"])
def test_an_odd_argument_is_refused_by_its_name(face: str, call: str) -> None:
    async def main() -> list[str]:
        if face == "threads":
            with Client("memory://") as client:
                return await _try(World(client, _plain), call)
        async with AsyncClient("memory://") as client:
            return await _try(World(client, _awaited), call)

    assert asyncio.run(main()) == []


def test_seconds_are_no_answer_to_whether_to_wait() -> None:
    with Client("memory://") as client, pytest.raises(ConfigError, match="timeout="):
        client.lock("x").acquire(5)


def test_every_public_call_with_arguments_is_tried() -> None:
    known = {*CALLS, "url", "close", "taking", "take", "consume", "stats", "locked"}
    with Client("memory://") as client:
        for one in (client, client.queue("q"), client.guard("g", ttl=5)):
            found = {name for name, _ in inspect.getmembers(type(one), inspect.isfunction)}
            assert {name for name in found if not name.startswith("_")} <= known


def test_a_part_of_a_job_that_can_not_be_printed_is_refused_in_words() -> None:
    with Client("memory://") as client, pytest.raises(ConfigError, match=r"40 digits isn.t a part"):
        client.queue("q").put_many([{10**5000: 1}])
