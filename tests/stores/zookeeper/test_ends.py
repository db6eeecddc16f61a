"""Processes and servers that are killed or stopped: the next holder, and the time until then."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

import pytest

from holdfast import Client
from holdfast.testing import lag
from holdfast.testing.faults import Subject, SubjectGone
from holdfast.testing.torture import Options, run
from tests.servers.zookeeper import Ensemble, ZooKeeperServer
from tests.stores.zookeeper.conftest import SHORT_S, eventually
from tests.torture.scale import figures, times

ACTS = "tests.torture.acts"
#: Seconds that the server may add: it counts sessions in ticks and may be late. Anything else that
#: had to end, other than the session, would take ten seconds or more.
TICKS_S = 2.0


@pytest.mark.parametrize("act", ["holds", "holds_in_a_loop"])
@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_the_next_waiter_waits_no_longer_than_a_session(
    end: str, act: str, short_url: str, own_name: str, other: Client
) -> None:
    lag.watch()
    waited = []
    for turn in range(times(50, 1)):
        # Given a process that holds the lock
        name = f"{own_name}:{turn}"
        with Subject(f"{ACTS}:{act}", short_url, name) as holder:
            fence = holder.hear()
            # When the process is killed, or stopped for longer than its session
            begun = time.monotonic()
            holder.signal(signal.SIGKILL if end == "killed" else signal.SIGSTOP)
            with other.lock(name, timeout=20) as hold:
                waited.append(time.monotonic() - begun)
                assert hold.fence > fence
                assert waited[-1] <= SHORT_S + TICKS_S + lag.since(begun)
                if end == "stopped":
                    # Then the process notices the loss, and leaves the next hold alone
                    holder.signal(signal.SIGCONT)
                    holder.say("go on")
                    with contextlib.suppress(SubjectGone):  # it could not reach the server in time
                        assert holder.hear() is False
                    hold.check()
                (line,) = other.inspect(name, exact=True)
                assert [one.fence for one in line.claims] == [hold.fence]
    print(figures(f"after the holder was {end}", waited))


def test_a_killed_waiter_blocks_others_no_longer_than_a_session(
    short_url: str, own_name: str, other: Client
) -> None:
    lag.watch()
    for turn in range(times(50, 1)):
        name = f"{own_name}:{turn}"
        with other.lock(name) as hold, Subject(f"{ACTS}:waits", short_url, name) as dead:
            dead.hear()
            eventually(lambda name=name: len(other.inspect(name, exact=True)[0].claims) == 2)
            with Subject(f"{ACTS}:waits", short_url, name) as behind:
                behind.hear()
                eventually(lambda name=name: len(other.inspect(name, exact=True)[0].claims) == 3)
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
    url = f"{server.url}?session=60"
    with Client(url) as client, Client(url) as rival:
        fences = []
        for turn in range(times(50, 1)):
            # Given a hold and a waiter
            hold = client.lock("x").acquire()
            assert hold is not None
            with Subject(f"{ACTS}:waits", url, "x") as waiter:
                waiter.hear()
                eventually(lambda: len(rival.inspect("x", exact=True)[0].claims) == 2)
                # When the server is killed and comes back within the session
                server.restart()
                # Then the hold and the place of the waiter are still there, and fences rise
                eventually(lambda: _answers(rival), 30.0)
                assert hold.extend() > 5
                assert len(rival.inspect("x", exact=True)[0].claims) == 2, turn
                assert hold.release() is True
                fence, *_ = waiter.hear()
                fences += [hold.fence, fence]
                waiter.say("done")
                waiter.rest()
            eventually(lambda: rival.inspect("x") == [])
        assert fences == sorted(set(fences))


@pytest.mark.usual(0)
def test_workers_that_are_killed_and_stopped_break_no_promise(short_url: str) -> None:
    # Given processes of both faces that lock, and are killed, stopped and forked
    seconds = times(300, 6)
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}")
    outcome = run(
        Options(
            store=short_url,
            seconds=seconds,
            seed=seed,
            processes=times(8, 5),
            names=4,
            ttl=SHORT_S,
            strikes=("kill", "stop", "stop", "fork"),
            every=0.6,
        )
    )
    print(outcome)
    # Then only the bound on waiting may break: a waiter behind a dead process waits for its session
    outcome.demand({"bounded waiting"})
    assert outcome.verdict.figures["held"] > seconds


@pytest.mark.usual(0)
def test_a_leader_that_is_killed_takes_no_hold_with_it(
    new_ensemble: Callable[..., Ensemble],
) -> None:
    ensemble = new_ensemble()
    url = f"{ensemble.url}?session=20"
    elections = []
    with Client(url) as client, Client(url) as rival:
        fences = []
        for _ in range(times(50, 1)):
            # Given a hold and a waiter
            hold = client.lock("x", timeout=20).acquire()
            assert hold is not None
            with Subject(f"{ACTS}:waits", url, "x") as waiter:
                waiter.hear()
                eventually(lambda: len(rival.inspect("x", exact=True)[0].claims) == 2)
                # When the leader is killed
                leader = ensemble.leader
                begun = time.monotonic()
                leader.kill()
                # Then the other servers continue with the same line
                eventually(lambda: _answers(rival), 20.0)
                elections.append(time.monotonic() - begun)
                hold.check()
                assert hold.release() is True
                fence, *_ = waiter.hear()
                fences += [hold.fence, fence]
                waiter.say("done")
                waiter.rest()
            leader.begin()
            ensemble.settle()
        assert fences == sorted(set(fences))
        eventually(lambda: rival.inspect("x") == [])
    print(figures("until writes were answered again after the leader's death", elections))


def _answers(client: Client) -> bool:
    try:
        client.lock("other", timeout=1).acquire().release()
    except ConnectionError:
        return False
    return True
