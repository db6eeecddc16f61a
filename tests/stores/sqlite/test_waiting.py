"""Long lines, and waiters that have no socket for a wake-up."""

from __future__ import annotations

import gc
import os
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.model import Full, Granted, Held, Keep, Kind, Waiting
from holdfast.runtime.blocking import boottime
from holdfast.stores.sqlite.blocking import wake
from holdfast.testing import lag
from tests.fenced.process import Child
from tests.stores.sqlite.desk import Desk, claim

lag.watch()

LONG = 5_000
#: Maximum median of one verb in a long line, in seconds.
VERB_S = 0.002


def test_a_verb_costs_the_same_in_a_line_of_five_thousand(
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a line of 5,000, without a socket for each waiter
    here = desk("?wake=poll")
    fence = here.hold(held := claim(ttl=600.0))
    here.engine.patience = here.engine._lines.patience = 600.0
    times: dict[str, list[float]] = {}

    def timed(what: str, work: Callable[[], object]) -> object:
        begun = time.perf_counter()
        answer = work()
        times.setdefault(what, []).append(time.perf_counter() - begun)
        return answer

    line = []
    for number in range(LONG):
        wanted = claim()
        what = "join, line of 1" if number < 100 else "join, line of 5,000"
        if 100 <= number < LONG - 100:
            what = "join"
        answer = timed(what, lambda wanted=wanted: here.join(wanted))
        assert isinstance(answer, Waiting)
        line.append((wanted, answer.ticket))
    # When each verb is used at the head, in the middle and at the end of the line
    for wanted, ticket in (line[0], line[2500], line[-1]) * 20:
        timed("keep", lambda w=wanted, t=ticket: here.keep(w, t))
    for wanted, _ in line[1000:1050]:
        timed("leave, from the middle, by id alone", lambda w=wanted: here.leave(w))
    assert here.leave(held, fence)
    for wanted, ticket in line[:50]:
        assert isinstance(here.keep(wanted, ticket), Held)
        timed("leave, and grant", lambda w=wanted, t=ticket: here.leave(w, t))
    timed("inspect", here.lines)
    # Then none costs noticeably more than in a short line
    for what, spans in times.items():
        print(f"{what}: {statistics.median(spans) * 1e6:.0f} us, at most {max(spans) * 1e3:.1f} ms")
        if what != "inspect":
            assert statistics.median(spans) < VERB_S, what
    (seen,) = here.lines()
    assert len(seen.waiters) == LONG - 50 - 50 - 1


def test_a_line_is_no_longer_than_a_line_may_be(
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a line that is full
    from holdfast.stores.sqlite.blocking import lines

    monkeypatch.setattr(lines, "WAITERS_MAX", 3)
    here = desk()
    here.hold(claim())
    for _ in range(3):
        assert isinstance(here.join(claim()), Waiting)
    # When one more client comes, then it is refused
    assert here.join(claim()) == Full(3)
    assert len(here.lines()[0].waiters) == 3


@pytest.mark.parametrize("how", ["by the option", "because sockets don't work"])
def test_without_sockets_waiters_look_for_themselves(
    how: str, path: Path, desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a waiter that has no socket
    options = "?wake=poll" if how == "by the option" else ""
    if not options:
        monkeypatch.setattr(wake.Post, "open_box", lambda *_: None)
    here, there = desk(), desk(options)
    fence = here.hold(held := claim())
    waiting = there.join(wanted := claim())
    assert isinstance(waiting, Waiting)
    begun = boottime()
    assert there.wait(wanted, waiting, 0.03) is None
    assert 0.02 < boottime() - begun < 0.5 + lag.since(begun)
    # When the holder releases the lock
    assert here.leave(held, fence)
    # Then the waiter's own poll finds the grant
    assert there.wait(wanted, waiting, 2.5) == Granted(waiting.ticket)
    assert there.leave(wanted, waiting.ticket)


def test_without_sockets_a_death_is_noticed_too(path: Path, desk: Callable[..., Desk]) -> None:
    # Given a waiter that must poll, and a holder that dies
    def holder(child: Child) -> None:
        there = Desk(path)
        child.say(there.hold(claim()))
        signal.pause()

    here = desk("?wake=poll")
    with Child(holder) as child:
        child.hear()
        waiting = here.join(wanted := claim())
        assert isinstance(waiting, Waiting)
    died = boottime()
    # Then the waiter holds soon
    while not isinstance(here.keep(wanted, waiting.ticket), Held):
        here.wait(wanted, waiting, 0.9)
    assert boottime() - died < 0.5 + lag.since(died)
    assert here.leave(wanted)


def test_a_batch_of_holds_is_renewed_in_little_time(desk: Callable[..., Desk]) -> None:
    # Given ten thousand holds: lone claims, and claims whose slot in the table another claim uses
    here = desk()
    held = []
    for number in range(10_000):
        wanted = claim(f"name-{number}")
        answer = here.join(wanted)
        assert isinstance(answer, Held)
        held.append(Keep(wanted, answer.fence, 30.0))
    # When all are renewed in batches
    begun, cpu = time.perf_counter(), time.process_time()
    size = here.store.keep_batch
    for first in range(0, len(held), size):
        answers = here.keep_all(held[first : first + size])
        assert all(isinstance(answer, Held) for answer in answers)
    cpu = time.process_time() - cpu
    print(f"10,000 renewed in {time.perf_counter() - begun:.3f} s, {cpu:.3f} s of a core")
    # Then the CPU time is less than one twentieth of the ten seconds between two rounds of renewal
    assert cpu < 0.5
    for keep in held:
        assert here.leave(keep.claim, keep.ticket)
    assert here.lines() == []


def test_weights_and_kinds_are_served_in_order(desk: Callable[..., Desk]) -> None:
    # Given readers that hold, a writer behind them, and a reader behind the writer
    here = desk()
    whole = 1 << 20
    spec = {"kind": Kind.RWLOCK, "capacity": whole}
    readers = [claim("book", **spec) for _ in range(3)]
    fences = [here.hold(reader) for reader in readers]
    writer = claim("book", weight=whole, **spec)
    last = claim("book", **spec)
    first, second = here.join(writer), here.join(last)
    assert isinstance(first, Waiting)
    assert isinstance(second, Waiting)
    # When the readers leave one by one, then the last reader doesn't overtake the writer
    for reader, fence in zip(readers, fences, strict=True):
        assert isinstance(here.keep(last, second.ticket), Waiting)
        assert here.leave(reader, fence)
    assert isinstance(here.keep(writer, first.ticket), Held)
    assert isinstance(here.keep(last, second.ticket), Waiting)
    # And when the writer becomes a reader, the last reader is granted
    assert isinstance(here.keep(writer, first.ticket, weight=1), Held)
    assert isinstance(here.keep(last, second.ticket), Held)


def test_a_socket_that_is_garbage_together_with_its_box_is_closed_without_a_warning(
    desk: Callable[..., Desk], recwarn: pytest.WarningsRecorder
) -> None:
    # Given a ring of garbage in which Python finalizes the socket before the box that contains it
    here = desk()
    here.hold(claim())
    box = here.engine._files.post.open_box("0123456789abcdef")
    assert box is not None
    descriptor = box.fd
    ring: list[object] = [box.socket, box]
    ring.append(ring)
    # When the last references to the ring are deleted
    del box, ring
    gc.collect()
    # Then the socket is closed
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert not recwarn.list
