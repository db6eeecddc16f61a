"""A server that is away, silent or restarted; and its logins, rights and secrets."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Generator
from typing import Any
from urllib.parse import unquote, urlsplit

from ...aio import AsyncClient
from ...errors import ConfigError, StoreUnavailable
from .. import lag
from ..faces import now
from ..promise import PromiseBroken
from . import products
from .bench import TTL_S, Floor
from .costs import each_verb_sends_its_requests_however_much_is_there
from .products import Tally

#: Seconds that a caller waits, and the seconds that its answer may come later.
BRIEF_S, MORE_S = 0.5, 1.5
#: A time-out that no refusal needs, and a lease that outlasts a restart.
PLENTY_S, LONG_S = 20.0, 20.0
#: Seconds after a restart in which everything works again; the check of the hold comes first.
BACK_S = 40.0


async def _fails_in_time(at: Floor, ours: AsyncClient) -> None:
    """Check that an acquire fails soon after its time-out, because the server gives no answer; by a
    client that was connected, and by a new one."""
    async with at.face.client(at.bench.url("127.0.0.1", at.proxy.port)) as new:
        for client in (ours, new):
            begun = now()
            try:
                found = await client.lock(at.name, ttl=TTL_S).acquire(timeout=BRIEF_S)
            except StoreUnavailable:
                pass
            else:
                raise AssertionError(f"the server gives no answer, and acquire() returned {found}")
            assert now() - begun < BRIEF_S + MORE_S + lag.since(begun)


async def a_server_that_is_away_is_an_error_in_time(at: Floor) -> None:
    """Every connection is refused: the error comes in time, and the client works again later."""
    async with at.clients() as (ours, other):
        at.proxy.refuse()
        await _fails_in_time(at, ours)
        at.proxy.heal()
        await at.is_free(ours, at.name, 20.0)
        await at.is_empty(other, at.name)


async def a_silent_server_costs_a_caller_no_more_than_its_time(at: Floor) -> None:
    """The server takes requests and answers nothing: a caller returns in time, with an error."""
    async with at.clients() as (ours, other):
        at.proxy.hold()
        await _fails_in_time(at, ours)
        at.proxy.heal()
        await at.is_free(other, at.name, at.bench.gone_s + 5.0)


async def a_hold_is_lost_before_anybody_else_can_hold(at: Floor) -> None:
    """The holder's connection is silent: its hold is lost before another client is granted."""
    async with at.clients() as (ours, other):
        hold: Any = await ours.lock(at.name, ttl=TTL_S).acquire(timeout=20)
        at.noted(hold)
        at.proxy.hold()
        rival: Any = await other.lock(at.name, ttl=TTL_S).acquire(timeout=at.bench.gone_s + 20.0)
        assert rival is not None, "the name of a silent holder never becomes free"
        if hold.lost is None:
            raise PromiseBroken("two hold after the first one's connection fell silent")
        at.noted(rival)
        at.proxy.heal()
        rival.check()
        await rival.release()
        await at.is_empty(other, at.name)


async def no_message_shows_the_secret(at: Floor) -> None:
    """No ``repr``, error or log line contains the password of the URL."""
    secret, url = at.bench.secret, at.bench.url("127.0.0.1", at.proxy.port)
    if not secret:
        return
    with _overheard() as said:
        for wrong in (f"{url}{'&' if '?' in url else '?'}no_such_option=1", url):
            at.proxy.refuse()
            try:
                async with at.face.client(wrong) as client:
                    said += [repr(client), repr(client.lock(at.name))]
                    await client.lock(at.name).acquire(timeout=BRIEF_S)
            except (ConfigError, StoreUnavailable) as failure:
                said.extend(_texts(failure))
    assert len(said) > 3
    assert [text for text in said if secret in text] == []


async def what_is_refused_is_one_clear_error(at: Floor) -> None:
    """A login, a right or a certificate that the server refuses is a ``ConfigError`` at once, which
    names the reason and shows no password."""
    for url, words in at.bench.refused.items():
        begun = now()
        with _overheard() as said:
            failure = await _refusal(at, url)
        assert re.search(words, str(failure)), f"{words!r} isn't in: {failure}"
        assert now() - begun < PLENTY_S / 2 + lag.since(begun), f"late: {failure}"
        secret = unquote(urlsplit(url).password or "")
        assert not secret or [one for one in said + _texts(failure) if secret in one] == []


async def _refusal(at: Floor, url: str) -> ConfigError:
    try:
        async with at.face.client(url) as client:
            found = await client.lock(at.name, ttl=TTL_S).acquire(timeout=PLENTY_S)
    except ConfigError as failure:
        return failure
    raise AssertionError(f"it is refused, and acquire() returned {found}")


async def the_least_rights_suffice(at: Floor) -> None:
    """Every verb works for a user that has only the rights that the store's page names."""
    if at.bench.least is not None:
        async with at.clients(at.bench.least) as (ours, other):
            await products.use(at, ours, other, Tally(), TTL_S / 2)


async def a_restart_grants_nothing_twice(at: Floor) -> None:
    """The server restarts: the holder keeps its hold or loses it before the waiter is granted, and
    soon after that every verb works again."""
    if at.bench.restart is None:
        return
    async with at.clients() as (ours, other):
        hold: Any = await ours.lock(at.name, ttl=LONG_S).acquire(timeout=20)
        at.noted(hold)

        async def wait() -> Any:
            return await other.lock(at.name, ttl=TTL_S).acquire(timeout=BACK_S)

        waiter = at.face.start(wait)
        await at.waits(ours, at.name)
        at.bench.restart()
        end = now() + at.bench.gone_s
        while hold.lost is None and now() < end:
            if waiter.finished and hold.lost is None:
                raise PromiseBroken(f"two hold after a restart: {await waiter.result()}")
            await at.face.sleep(0.05)
        begun = now()
        await hold.release()
        rival = await waiter.result(BACK_S + lag.since(begun))
        assert rival is not None, "the waiter was never granted"
        if ours.capabilities.durable_fences:
            at.noted(rival)
        await rival.release()
        await products.use(at, ours, other, Tally())
        assert now() - begun < BACK_S + lag.since(begun), "it took too long"


async def an_unknown_option_is_named(at: Floor) -> None:
    """A URL with an unknown option is refused, and the error names the option."""
    url = at.bench.url(at.bench.host, at.bench.port)
    said = ""
    try:
        at.face.client(f"{url}{'&' if '?' in url else '?'}no_such_option=1")
    except ConfigError as failure:
        said = str(failure)
    assert "no_such_option" in said


@contextlib.contextmanager
def _overheard() -> Generator[list[str]]:
    """A list that gets every log line of holdfast during the block."""
    said: list[str] = []
    log, handler = logging.getLogger("holdfast"), logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield said
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def _texts(failure: BaseException) -> list[str]:
    return [str(failure), repr(failure), repr(failure.__cause__)]


OPERATIONS: tuple[Callable[[Floor], Awaitable[None]], ...] = (
    a_server_that_is_away_is_an_error_in_time,
    a_silent_server_costs_a_caller_no_more_than_its_time,
    a_hold_is_lost_before_anybody_else_can_hold,
    no_message_shows_the_secret,
    an_unknown_option_is_named,
    what_is_refused_is_one_clear_error,
    the_least_rights_suffice,
    a_restart_grants_nothing_twice,
    each_verb_sends_its_requests_however_much_is_there,
)
