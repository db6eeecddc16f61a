"""The way from a request to a hold, if the store doesn't reply, replies late, or replies twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, ConfigError, StoreUnavailable
from holdfast.core.model import Claim, Granted, Held, Joined, Leave, Renewal, Waiting
from holdfast.core.plain import visible
from holdfast.runtime.blocking import boottime
from holdfast.stores.memory import line
from holdfast.testing import lag
from holdfast.testing.clock import TestClock
from holdfast.testing.rivals import Rival
from tests.core.flaky import Flaky
from tests.servers.process import until

lag.watch()

#: The label of another client, with characters that could forge a line.
EVIL = "a\x1b[31mb\nERROR forged\r\x00\u202e\x9b2J"


@pytest.mark.parametrize("fault", ["down", "mute"])
def test_a_silent_store_is_an_error_and_never_taken_for_busy(
    fault: str, locks: Client, store: Flaky
) -> None:
    setattr(store, fault, {"join"})
    for options, most in (
        ({"timeout": 0}, 0.5),
        ({"timeout": 0.3}, 0.55),
        ({"blocking": False}, 1.5),
    ):
        begun = boottime()
        with pytest.raises(StoreUnavailable, match="is unknown whether the name is free"):
            locks.lock("x").acquire(**options)
        assert boottime() - begun < most + lag.since(begun)
    store.mend()
    assert locks.inspect("x") == []


def test_an_outage_shorter_than_the_waiter_ttl_costs_no_place_in_line(
    locks: Client, store: Flaky, contend: Callable[..., Rival]
) -> None:
    rival = contend("x")
    waiting = threading.Thread(target=lambda: locks.lock("x").acquire().release())
    waiting.start()
    until(lambda: locks.inspect("x")[0].waiters, "it waits")
    behind_us = contend("x")
    store.down = {"turn"}
    time.sleep(1.3)  # it asks without success once or twice meanwhile
    store.mend()
    rival.leave()
    waiting.join(5)
    assert not waiting.is_alive()
    assert store.calls["turn"] >= 2
    assert behind_us.holding


@pytest.mark.parametrize("lates", [2, 99])
def test_a_grant_that_comes_too_late_is_released_and_requested_again(
    lates: int, locks: Client, lock_clock: TestClock, store: Flaky
) -> None:
    join = store.join
    answers: list[Any] = []

    async def slow(claim: Claim, wait: bool, within: float) -> Joined:
        answers.append(await join(claim, wait, within))
        if len(answers) <= lates:
            lock_clock._space.skew += 31.0
        return answers[-1]

    store.join = slow
    if lates > 5:  # then the store is reported as too slow
        with pytest.raises(StoreUnavailable, match=r"5 times.*lease of 30 s on 'x'.*longer ttl"):
            locks.lock("x", ttl=30).acquire()
        assert locks.inspect("x") == []
        return
    with locks.lock("x", ttl=30) as hold:
        assert hold.fence == answers[2].fence
        assert hold.remaining() > 29
    assert len({one.fence for one in answers if isinstance(one, Held)}) == 3


def test_a_wake_up_for_an_earlier_ticket_of_the_same_id_is_ignored(
    locks: Client, store: Flaky, contend: Callable[..., Rival]
) -> None:
    """The wake-up of an expired ticket must not count as a grant.

    The reply to a join was lost and its claim expired, so the repeated join entered the line again.
    The wake-up for the first ticket arrives after that.
    """
    rival = contend("x")
    wait, late = store.wait, [1]

    async def pokes(claim: Claim, waiting: Waiting, seconds: float) -> Granted | None:
        if late:
            return Granted(waiting.ticket - late.pop())
        return await wait(claim, waiting, seconds)

    store.wait = pokes
    # Long enough to reach the wait in any case
    assert locks.lock("x").acquire(timeout=1.5) is None
    assert not late
    rival.leave()
    assert locks.inspect("x") == []


def test_a_line_has_an_end(
    locks: Client, contend: Callable[..., Rival], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "WAITERS_MAX", 3)
    for _ in range(4):
        contend("x")
    assert locks.lock("x").acquire(blocking=False) is None
    with pytest.raises(ConfigError, match="3 claims wait for 'x' already"):
        locks.lock("x").acquire(timeout=1)


def test_a_client_that_is_closed_while_it_waits_gives_up(
    locks: Client, contend: Callable[..., Rival]
) -> None:
    contend("x")
    failures: list[StoreUnavailable] = []

    def wait() -> None:
        with pytest.raises(StoreUnavailable) as failure:
            locks.lock("x").acquire()
        failures.append(failure.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: locks.inspect("x")[0].waiters, "it waits")
    locks.close()
    waiting.join(5)
    assert "closed" in str(failures[0])


def test_a_lease_is_valid_for_at_most_its_ttl_whatever_the_store_returns(
    locks: Client, store: Flaky
) -> None:
    """A store whose clock was set back between a join and its repetition can return 3600 s."""

    def lengthen(verb: str) -> None:
        ask = getattr(store.store, verb)

        async def longer(*given: Any) -> Any:
            answer = await ask(*given)
            held = [
                one._replace(expires_in=3600.0) if isinstance(one, Held) else one
                for one in (answer if isinstance(answer, list) else [answer])
            ]
            return held if isinstance(answer, list) else held[0]

        setattr(store.store, verb, longer)

    for verb in ("join", "join_free", "renew", "change"):
        lengthen(verb)
    with locks.lock("x", ttl=30, auto_renew=False) as hold:
        assert hold.remaining() <= 30
        token = hold.detach()
    with locks.adopt(token) as adopted:
        assert adopted.remaining() <= 30
    both = [locks.lock(name, ttl=30, auto_renew=False) for name in ("a", "b")]
    with locks.all(*both) as holds:
        assert holds.remaining() <= 30
    assert store.calls["join_free"] == 1


def test_a_long_wait_is_logged_once_with_the_holder_and_the_position(
    two: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("holdfast.core.waits.LONG_S", 0.2)
    caplog.set_level("DEBUG", "holdfast")
    with Client(two[0].url, label=EVIL) as theirs, theirs.lock("x"):
        assert two[0].lock("x").acquire(timeout=4) is None
    told = [one for one in caplog.records if "waiting" in one.getMessage()]
    assert [one.levelname for one in told] == ["DEBUG", "INFO"]
    begun, long = (one.getMessage() for one in told)
    assert begun.startswith("waiting for 'x', number 1 in line")
    assert long.startswith("still waiting for 'x'")
    assert f"number 1 in line; held by {visible(theirs.owner)} for " in long
    assert "(fence " in long
    assert long.isprintable()


def test_secrets_never_show(
    locks: Client, store: Flaky, caplog: pytest.LogCaptureFixture, lose: Any
) -> None:
    # Given: all ids that were ever sent, and all text that users can see
    caplog.set_level(0)
    ids: set[str] = set()
    shown: list[str] = []
    join, renew, change = store.join, store.store.renew, store.store.change

    async def note_join(claim: Claim, wait: bool, within: float) -> Joined:
        ids.add(claim.id)
        shown.extend([repr(claim), str(claim), f"{claim}", repr(Leave("x", claim.id, 7))])
        return await join(claim, wait, within)

    async def note_renew(renewals: Any, within: float) -> Any:
        shown.extend(map(repr, renewals))
        return await renew(renewals, within)

    async def note_change(request: Any, within: float) -> Any:
        ids.add(request.new_id or request.claim.id)
        shown.append(repr(request))
        return await change(request, within)

    store.join, store.store.renew, store.store.change = note_join, note_renew, note_change
    # When
    hold = locks.lock("x").acquire()
    token = hold.detach()
    mine = locks.adopt(token)
    shown += [repr(mine), str(mine), repr(hold), repr(locks), repr(locks.lock("x"))]
    shown += [
        repr(locks.inspect("x")),
        repr(Renewal(Claim("s" * 32, mine._lease.claim.spec), 1, 1.0)),
    ]
    for act in (lambda: locks.adopt(token), lambda: locks.lock("x", timeout=0).__enter__()):
        with pytest.raises(Exception) as failed:  # whatever its message is
            act()
        shown.append(repr(failed.value))
    lose(mine)
    with pytest.raises(Exception) as failed:
        mine.check()
    shown += [repr(failed.value), caplog.text]
    # Then
    assert len(ids) >= 2
    assert len(shown) > 10
    for secret in (*ids, token, "s" * 32):
        assert not [text for text in shown if secret in text]
