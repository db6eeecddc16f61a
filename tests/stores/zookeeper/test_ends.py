"""Processes and servers that are killed or stopped: the next holder, and the time until then."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest

from holdfast import Client
from holdfast.testing import lag
from holdfast.testing.faults import Subject, SubjectGone, dice
from holdfast.testing.torture import Options, Outcome, run
from tests.servers.zookeeper import Ensemble, ZooKeeperServer
from tests.stores.zookeeper.conftest import LINE, SHORT_S, SIMPLE, eventually, many
from tests.torture.scale import FULL, figures, times

lag.watch()
ACTS = "tests.torture.acts"
#: Seconds that the server may add: it counts sessions in ticks and may be late. Anything else that
#: had to end, other than the session, would take ten seconds or more.
TICKS_S = 2.0
#: Seconds between two deaths of the server. After each death it is away for a second or two.
DEATH_S = 2.0
#: Functions that hold a lock, and the recipes.
HOLDERS = {"sync": ("holds", LINE), "aio": ("holds_in_a_loop", LINE), "simple": ("holds", SIMPLE)}


@pytest.mark.parametrize("act, recipe", HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_the_next_waiter_waits_no_longer_than_a_session(
    end: str, act: str, recipe: str, short_url: str, own_name: str, peer: Client
) -> None:
    waited = []
    for turn in range(times(50, 1)):
        # Given a process that holds the lock
        name = f"{own_name}:{turn}"
        with Subject(f"{ACTS}:{act}", f"{short_url}&{recipe}", name) as holder:
            fence = holder.hear()
            # When the process is killed, or stopped for longer than its session
            begun = time.monotonic()
            holder.signal(signal.SIGKILL if end == "killed" else signal.SIGSTOP)
            with peer.lock(name, timeout=20) as hold:
                waited.append(time.monotonic() - begun)
                assert hold.fence > fence
                assert waited[-1] <= SHORT_S + TICKS_S + lag.since(begun)
                if end == "stopped":
                    # Then the process notices the loss, and leaves the next hold alone
                    holder.signal(signal.SIGCONT)
                    holder.say("continue")
                    with contextlib.suppress(SubjectGone):  # it could not reach the server in time
                        assert holder.hear() is False
                    hold.check()
                (line,) = peer.inspect(name, exact=True)
                assert [one.fence for one in line.claims] == [hold.fence]
    print(figures(f"after the holder was {end}", waited))


def test_a_killed_waiter_blocks_others_no_longer_than_a_session(
    short_url: str, own_name: str, other: Client
) -> None:
    for turn in range(times(50, 1)):
        name = f"{own_name}:{turn}"
        with other.lock(name) as hold, Subject(f"{ACTS}:waits", short_url, name) as dead:
            dead.hear()
            eventually(lambda name=name: many(other, name) == 2)
            with Subject(f"{ACTS}:waits", short_url, name) as behind:
                behind.hear()
                eventually(lambda name=name: many(other, name) == 3)
                os.kill(dead.pid, signal.SIGKILL)
                begun = time.monotonic()
                hold.release()
                fence, *_ = behind.hear()
                assert time.monotonic() - begun <= SHORT_S + TICKS_S + lag.since(begun)
                assert fence > hold.fence
                behind.say("done")
                behind.rest()


def test_a_server_that_is_killed_and_comes_back_has_lost_nothing(
    new_zookeeper: Callable[..., ZooKeeperServer],
) -> None:
    server = new_zookeeper()
    outlived(f"{server.url}?session=60", server.restart)


@pytest.mark.usual(0)
def test_a_leader_that_is_killed_takes_no_hold_with_it(
    new_ensemble: Callable[..., Ensemble],
) -> None:
    ensemble = new_ensemble()

    def lead_on() -> None:
        for server in ensemble.servers:
            if not server.runs:
                server.begin()
        ensemble.settle()
        ensemble.leader.kill()

    outlived(f"{ensemble.url}?session=20", lead_on)


def outlived(url: str, strike: Callable[[], object]) -> None:
    """Cut off or stop a server within the session: the hold and the waiter survive."""

    def answers() -> bool:
        try:
            rival.lock("other", timeout=1).acquire().release()
        except ConnectionError:
            return False
        return True

    fences, waited = [], []
    with Client(url) as client, Client(url) as rival:
        for _ in range(times(50, 1)):
            hold = client.lock("x", timeout=20).acquire()
            assert hold is not None
            with Subject(f"{ACTS}:waits", url, "x") as waiter:
                waiter.hear()
                eventually(lambda: many(rival, "x") == 2)
                strike()
                begun = time.monotonic()
                eventually(answers, 30.0)
                waited.append(time.monotonic() - begun)
                # Then the hold and the place of the waiter are still there, and fences rise
                assert hold.extend() > 5
                assert many(rival, "x") == 2
                assert hold.release() is True
                fence, *_ = waiter.hear()
                fences += [hold.fence, fence]
                waiter.say("done")
                waiter.rest()
            eventually(lambda: rival.inspect("x") == [])
        assert fences == sorted(set(fences))
    print(figures("until writes were answered again", waited))


def test_a_server_killed_under_load_causes_no_overlap(
    new_zookeeper: Callable[..., ZooKeeperServer],
) -> None:
    # Given workers that are killed, stopped and forked, on a server that is killed repeatedly
    server = new_zookeeper()
    options = Options(
        store=f"{server.url}?session=4",
        seconds=times(300, 3),
        seed=dice("torture on a killed ZooKeeper").randrange(1 << 32),
        processes=times(8, 5),
        names=4,
        ttl=4.0,
        every=1.0,
        # A killed worker makes the end of the run wait for its session.
        strikes=("kill", "stop", "stop", "fork") if FULL else ("stop",),
    )
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run(options)))
    thread.start()
    deaths, end = 0, time.monotonic() + options.seconds
    while time.monotonic() + DEATH_S < end:
        time.sleep(DEATH_S)
        server.restart()
        deaths += 1
    thread.join()
    (outcome,) = outcomes
    print(f"{deaths} deaths of the server")
    print(outcome)
    # Then no holds overlap, no fence falls, and no claim is left; some waiters had to wait for long
    outcome.demand({"bounded waiting"})
    assert deaths >= max(1, options.seconds / 6)
