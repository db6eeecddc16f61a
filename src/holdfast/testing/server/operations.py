"""A server that is away or silent, and secrets that nothing may show."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ...aio import AsyncClient
from ...errors import ConfigError, StoreUnavailable
from .. import lag
from ..faces import now
from ..promise import PromiseBroken
from .bench import TTL_S, Floor

#: Seconds that a caller waits, and the seconds that its answer may come later.
BRIEF_S, MORE_S = 0.5, 1.5


async def _fails_in_time(at: Floor, client: AsyncClient) -> None:
    """Check that an acquire fails soon after its time-out, because the server gives no answer."""
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
    secret, said = at.bench.secret, _Said()
    if not secret:
        return
    log = logging.getLogger("holdfast")
    before = log.level
    log.addHandler(said)
    log.setLevel(logging.DEBUG)
    try:
        url = at.bench.url("127.0.0.1", at.proxy.port)
        for wrong in (f"{url}{'&' if '?' in url else '?'}no_such_option=1", url):
            at.proxy.refuse()
            try:
                async with at.face.client(wrong) as client:
                    said.texts.append(repr(client))
                    said.texts.append(repr(client.lock(at.name)))
                    await client.lock(at.name).acquire(timeout=BRIEF_S)
            except (ConfigError, StoreUnavailable) as failure:
                said.texts += [str(failure), repr(failure), repr(failure.__cause__)]
    finally:
        log.removeHandler(said)
        log.setLevel(before)
    assert len(said.texts) > 3
    assert [text for text in said.texts if secret in text] == []


async def an_unknown_option_is_named(at: Floor) -> None:
    """A URL with an unknown option is refused, and the error names the option."""
    url = at.bench.url(at.bench.host, at.bench.port)
    said = ""
    try:
        at.face.client(f"{url}{'&' if '?' in url else '?'}no_such_option=1")
    except ConfigError as failure:
        said = str(failure)
    assert "no_such_option" in said


class _Said(logging.Handler):
    """Collects log lines."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        self.texts.append(record.getMessage())


OPERATIONS: tuple[Callable[[Floor], Awaitable[None]], ...] = (
    a_server_that_is_away_is_an_error_in_time,
    a_silent_server_costs_a_caller_no_more_than_its_time,
    a_hold_is_lost_before_anybody_else_can_hold,
    no_message_shows_the_secret,
    an_unknown_option_is_named,
)
