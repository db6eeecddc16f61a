"""Text of other clients, and numbers of thousands of digits, in messages, logs and errors."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, ConfigError, Loss, NotAcquired
from holdfast.cli import main as command
from holdfast.core.plain import visible

EVIL = "a\x1b[31mb\nERROR forged\r\x00\u202e\x9b2J"
PRIMITIVES: dict[str, Callable[[Client], Any]] = {
    "lock": lambda locks: locks.lock("x", timeout=0, meta=EVIL),
    "reentrant": lambda locks: locks.lock("x", timeout=0, reentrant=True, meta=EVIL),
    "semaphore": lambda locks: locks.semaphore("x", 1, timeout=0, meta=EVIL),
    "write": lambda locks: locks.rwlock("x", timeout=0, meta=EVIL).write,
    "election": lambda locks: locks.election("x", timeout=0, meta=EVIL),
    "all": lambda locks: locks.all("x", "y", timeout=0),
}


def plain(text: str) -> bool:
    return all(line.isprintable() for line in text.splitlines()) and "\r" not in text


@pytest.fixture
def both() -> Any:
    with Client("memory://foreign", label=EVIL) as theirs, Client("memory://foreign") as ours:
        yield theirs, ours


@pytest.mark.parametrize("kind", PRIMITIVES)
def test_the_owner_of_another_forges_no_line_of_our_errors(
    kind: str, both: tuple[Client, Client]
) -> None:
    theirs, ours = both
    with PRIMITIVES[kind](theirs):
        for wish in (PRIMITIVES[kind](ours).acquire, PRIMITIVES[kind](ours).__enter__):
            with pytest.raises(NotAcquired) as refused:
                wish()
            assert str(refused.value).isprintable(), repr(str(refused.value))
            # The attributes for programs have the unchanged text of the store
            assert (refused.value.name, refused.value.holder) == ("x", theirs.owner)
            assert 0 <= refused.value.waited < 60
            again = pickle.loads(pickle.dumps(refused.value))
            assert (again.name, again.holder, str(again)) == (
                refused.value.name,
                refused.value.holder,
                str(refused.value),
            )


@pytest.mark.parametrize("kind", PRIMITIVES)
@pytest.mark.parametrize("name", [EVIL, "x"])
def test_no_log_line_and_no_error_of_a_loss_is_forged(
    kind: str, name: str, both: tuple[Client, Client], caplog: pytest.LogCaptureFixture
) -> None:
    theirs, _ = both
    lock = PRIMITIVES[kind](theirs)
    if kind != "all":
        lock = lock._renamed(name)
    hold = lock.acquire(timeout=1)
    for one in getattr(hold, "holds", [hold]):
        theirs._ctx.keeper._let_go(one._lease, Loss.BROKEN)
        with pytest.raises(Exception, match="broken") as lost:
            one.check()
        assert str(lost.value).isprintable()
        assert lost.value.reason is Loss.BROKEN  # type: ignore[attr-defined]
        assert repr(one).isprintable()
    hold.release()
    assert caplog.records
    for record in caplog.records:
        assert record.getMessage().isprintable(), record.getMessage()


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--all"], ["show", "x"], ["show", EVIL]])
@pytest.mark.parametrize("kind", PRIMITIVES)
def test_no_listing_is_forged(
    kind: str, arguments: list[str], tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite://{tmp_path}/l.db"
    arguments = [one.replace("\0", "") for one in arguments]
    with Client(url, label=EVIL.replace("\0", "")) as theirs:
        lock = PRIMITIVES[kind](theirs)
        other = theirs.lock(EVIL.replace("\0", ""))
        with lock, other:
            command([arguments[0], "--url", url, *arguments[1:]])
    said = capsys.readouterr()
    assert "ERROR forged" in said.out + said.err
    assert plain(said.out + said.err), repr(said)


def test_printable_text_is_left_unchanged() -> None:
    assert visible("Grüße, 世界 'x'") == "Grüße, 世界 'x'"
    assert visible(EVIL).isprintable()


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError("planted")


HUGE: list[Any] = [10**5000, -(10**5000), Unprintable()]
CALLS: dict[str, Callable[[Client, Any], Any]] = {
    "name": lambda locks, odd: locks.lock(odd),
    "ttl": lambda locks, odd: locks.lock("x", ttl=odd),
    "timeout": lambda locks, odd: locks.lock("x", timeout=odd),
    "max_hold": lambda locks, odd: locks.lock("x", max_hold=odd),
    "min_hold": lambda locks, odd: locks.lock("x", min_hold=odd),
    "on_lost": lambda locks, odd: locks.lock("x", on_lost=odd),
    "meta": lambda locks, odd: locks.lock("x", meta=odd),
    "wait": lambda locks, odd: locks.lock("x").acquire(timeout=odd),
    "permits": lambda locks, odd: locks.semaphore("x", odd),
    "weight": lambda locks, odd: locks.semaphore("x", 2, weight=odd),
    "resize": lambda locks, odd: locks.semaphore("x", 2).resize(odd),
    "all": lambda locks, odd: locks.all(odd),
    "decorated": lambda locks, odd: locks.lock("x")(odd),
    "queue": lambda locks, odd: locks.queue(odd),
    "rate": lambda locks, odd: locks.queue("q", rate=odd),
    "interval_from": lambda locks, odd: locks.queue("q", interval_from=odd),
    "put": lambda locks, odd: locks.queue("q").put(odd),
    "group": lambda locks, odd: locks.queue("q").put("a", group=odd),
    "delay": lambda locks, odd: locks.queue("q").put("a", delay=odd),
    "guard": lambda locks, odd: locks.guard("g", ttl=odd),
    "codec": lambda locks, odd: locks.guard("g", ttl=1, codec=odd),
    "late": lambda locks, odd: locks.guard("g", ttl=1, on_timeout=odd),
    "token": lambda locks, odd: locks.adopt(odd),
    "client": lambda locks, odd: Client("memory://", ttl=odd),
    "label": lambda locks, odd: Client("memory://", label=odd),
}


@pytest.mark.parametrize("odd", HUGE, ids=["huge", "huge below zero", "unprintable"])
@pytest.mark.parametrize("call", CALLS)
def test_what_can_not_be_printed_is_refused_as_what_it_is(call: str, odd: Any) -> None:
    with Client("memory://odd") as locks, pytest.raises(ConfigError) as refused:
        CALLS[call](locks, odd)
    assert len(str(refused.value)) < 500


def test_a_long_wait_is_logged_once_as_it_begins_and_once_when_it_is_long(
    both: tuple[Client, Client],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("holdfast.core.waits.LONG_S", 0.2)
    theirs, ours = both
    caplog.set_level(logging.DEBUG, "holdfast")
    with theirs.lock("x"):
        assert ours.lock("x").acquire(timeout=4) is None
    told = [(one.levelname, one.getMessage()) for one in caplog.records if "waiting" in one.message]
    assert [level for level, _ in told] == ["DEBUG", "INFO"]
    assert told[0][1].startswith("waiting for 'x', number 1 in line")
    assert f"held by {visible(theirs.owner)} for " in told[1][1]
    assert "(fence " in told[1][1]
    assert told[1][1].isprintable()
