"""The simple recipe: one node with the lock's name, which other programs create and delete too."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from holdfast import Client, ConfigError, NotSupported
from holdfast.cli import main
from holdfast.core.model import Loss
from holdfast.testing import lag
from holdfast.testing.faces import Face
from tests.stores.zookeeper.conftest import (
    SIMPLE,
    MakeClient,
    Served,
    claims,
    counted,
    eventually,
    kept_out,
    never_two,
    play,
    refusal,
)


def test_plain_creates_of_the_node_and_holdfast_exclude_each_other(
    kazoo: KazooClient, ours: Client, own_name: str, path: str
) -> None:
    lock = ours.lock(own_name)
    for ephemeral in (True, False):
        # Given another program's node: holdfast is refused, and names its creator
        kazoo.create(path, b"a colleague", ephemeral=ephemeral)
        assert lock.acquire(blocking=False) is None
        kept_out(lock, 0.2)
        # The message names the creator, unless a busy machine leaves no time to read the node.
        eventually(lambda: "a colleague" in refusal(ours.lock(own_name, timeout=0)))
        (line,) = ours.inspect(own_name)
        assert [(one.owner, one.held, one.fence) for one in line.claims] == [
            ("a colleague", True, kazoo.exists(path).czxid)
        ]
        assert math.isinf(line.claims[0].expires_in) is not ephemeral
        # And holdfast never removes the node, unless a user breaks it
        assert kazoo.get(path)[0] == b"a colleague"
        if ephemeral:
            kazoo.delete(path)
        else:
            assert ours.break_(own_name, line.claims[0].fence) is True
        # Given that holdfast holds: another create is refused, and the node names the owner
        with lock as hold:
            with pytest.raises(NodeExistsError):
                kazoo.create(path, b"a colleague", ephemeral=True)
            data, stat = kazoo.get(path)
            assert data.decode().partition("\n")[0] == hold.owner
            assert stat.czxid == hold.fence
        assert kazoo.exists(path) is None
    assert claims(kazoo) == []


def test_we_are_served_as_soon_as_the_others_node_is_gone(
    kazoo: KazooClient, ours: Client, rival: Client, own_name: str, path: str
) -> None:
    lag.watch()
    for colleague in (True, False):
        took: list[float] = []
        for _ in range(3):
            if colleague:
                kazoo.create(path, b"a colleague", ephemeral=True)
                leave = partial(kazoo.delete, path)
            else:
                leave = rival.lock(own_name).acquire().release
            waiting = Served(ours.lock(own_name, timeout=20))
            own = ours._ctx.store._own.claims
            eventually(lambda own=own: any(one.armed for one in own.values()))
            took.append(waiting.after(leave))
        assert sorted(took)[1] < 0.25, took  # the server may be late once


def test_holdfast_and_other_clients_never_hold_at_the_same_time(
    kazoo: KazooClient, ours: Client, rival: Client, own_name: str, path: str
) -> None:
    @contextmanager
    def theirs() -> Iterator[None]:
        while True:
            try:
                kazoo.create(path, b"a colleague", ephemeral=True)
                break
            except NodeExistsError:
                time.sleep(0.002)
        yield
        kazoo.delete(path)

    locks = [one.lock(own_name, timeout=60) for one in (ours, ours, rival)]
    never_two([*(lambda lock=lock: lock for lock in locks), theirs])  # type: ignore[misc]
    assert claims(kazoo) == []


def test_a_try_is_one_round_trip_whatever_comes_of_it(
    ours: Client, rival: Client, own_name: str
) -> None:
    ours.lock(own_name).acquire().release()
    with counted(ours) as asked:
        hold = ours.lock(own_name).acquire(blocking=False)
        assert len(asked) == 1
        assert hold.release() is True
        assert len(asked) == 2
        with rival.lock(own_name):
            assert ours.lock(own_name).acquire(blocking=False) is None
        assert len(asked) == 3


def test_a_late_release_does_not_end_a_later_hold(
    kazoo: KazooClient, ours: Client, rival: Client, own_name: str, path: str
) -> None:
    # Given a hold that another client breaks, and the next hold
    broken = ours.lock(own_name).acquire()
    assert rival.break_(own_name, broken.fence) is True
    with rival.lock(own_name, timeout=5) as after:
        # Then the release of the first hold leaves the next one alone
        assert broken.release() is False
        assert [one.fence for one in rival.inspect(own_name)[0].holders] == [after.fence]
        assert after.extend() > 0
    # Given holds whose node another program deletes by hand and creates for itself
    ours.all(own_name, f"{own_name}-2").acquire().release()
    for lock in (ours.lock(own_name), ours.all(own_name, f"{own_name}-2")):
        robbed = lock.acquire()
        kazoo.delete(path)
        kazoo.create(path, b"a colleague", ephemeral=True)
        # Then the release leaves the new node alone, too
        assert robbed.release() is False
        assert kazoo.get(path)[0] == b"a colleague"
        assert kazoo.exists(f"{path}-2") is None
        kazoo.delete(path)
        assert claims(kazoo) == []


def test_a_holder_whose_node_was_deleted_is_lost_and_the_next_holds(
    face: Face, kazoo: KazooClient, rival: Client, zookeeper_url: str, own_name: str, path: str
) -> None:
    async def act(client: Any) -> None:
        # Given a hold whose node is deleted by hand, and the hold of another client
        hold = await client.lock(own_name, ttl=1.6).acquire()
        kazoo.delete(path)
        with rival.lock(own_name, timeout=10) as after:
            # Then the first hold is lost at its next renewal, and leaves the next hold alone
            assert await hold.wait_lost(10) is Loss.BROKEN
            assert await hold.release() is False
            own = client._ctx.store._own
            await face.outside(lambda: eventually(lambda: not own.claims))
            assert after.extend() > 0
            assert [one.fence for one in rival.inspect(own_name)[0].holders] == [after.fence]

    play(face, f"{zookeeper_url}?{SIMPLE}", act, 60.0)
    assert claims(kazoo) == []


def test_a_line_and_the_simple_recipe_refuse_each_other(
    new_client: MakeClient, zookeeper_url: str, own_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    simple = f"{zookeeper_url}?prefix={own_name}&recipe=simple"
    line = f"{zookeeper_url}?prefix={own_name}"
    one, other = new_client(simple), new_client(line)
    with one.lock("x"):
        with pytest.raises(ConfigError, match=r"simple recipe's nodes.*recipe=simple"):
            other.lock("x").acquire(timeout=5)
        assert main(["doctor", "--url", line]) == 0
        assert "the simple recipe's nodes" in capsys.readouterr().out
    with other.lock("y"):
        for act in (
            lambda: one.lock("y").acquire(timeout=5),
            lambda: one.lock("y").acquire(blocking=False),
            lambda: one.inspect("y", exact=True),
        ):
            with pytest.raises(ConfigError, match=r"a line's nodes.*recipe=kazoo"):
                act()
        assert one.inspect() == []
        assert main(["doctor", "--url", simple]) == 0
        assert "a line's nodes" in capsys.readouterr().out
    for make in (one.rwlock, one.election, lambda name: one.semaphore(name, 2)):
        with pytest.raises(NotSupported):
            make("z")
    assert not one.supports("queues")
    with pytest.raises(NotSupported, match="serial queues"):
        one.queue("q").put(1)
