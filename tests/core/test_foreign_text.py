"""Text of other clients in messages, logs, errors and listings: it forges no line."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, Loss, NotAcquired
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
            error = refused.value
            assert str(error).isprintable(), repr(str(error))
            # The attributes for programs have the unchanged text of the store
            assert (error.name, error.holder) == ("x", theirs.owner)
            assert 0 <= error.waited < 60
            again = pickle.loads(pickle.dumps(error))
            assert (again.name, again.holder, str(again)) == ("x", theirs.owner, str(error))


@pytest.mark.parametrize("kind", PRIMITIVES)
@pytest.mark.parametrize("name", [EVIL, "x"])
def test_no_log_line_and_no_error_of_a_loss_is_forged(
    kind: str, name: str, both: tuple[Client, Client], caplog: pytest.LogCaptureFixture
) -> None:
    theirs, _ = both
    lock = PRIMITIVES[kind](theirs)
    hold = (lock if kind == "all" else lock._renamed(name)).acquire(timeout=1)
    for one in getattr(hold, "holds", [hold]):
        theirs._ctx.keeper._let_go(one._lease, Loss.BROKEN)
        with pytest.raises(Exception, match="broken") as lost:
            one.check()
        assert str(lost.value).isprintable()
        assert lost.value.reason is Loss.BROKEN
        assert repr(one).isprintable()
    hold.release()
    assert caplog.records
    assert all(record.getMessage().isprintable() for record in caplog.records), caplog.text


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--all"], ["show", "x"], ["show", EVIL]])
@pytest.mark.parametrize("kind", PRIMITIVES)
def test_no_listing_is_forged(
    kind: str, arguments: list[str], tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    url, evil = f"sqlite://{tmp_path}/l.db", EVIL.replace("\0", "")
    verb, *rest = (one.replace("\0", "") for one in arguments)
    with Client(url, label=evil) as theirs, PRIMITIVES[kind](theirs), theirs.lock(evil):
        command([verb, "--url", url, *rest])
    captured = capsys.readouterr()
    said = captured.out + captured.err
    assert "ERROR forged" in said
    assert "\r" not in said
    assert all(line.isprintable() for line in said.splitlines()), repr(said)


def test_printable_text_is_left_unchanged() -> None:
    assert visible("Grüße, 世界 'x'") == "Grüße, 世界 'x'"
    assert visible(EVIL).isprintable()
