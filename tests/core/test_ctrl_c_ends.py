"""A Ctrl-C between the grant and the body, or in the middle of a release, leaves no hold behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core import context, door, hold, multi, undos
from tests.servers.process import until

Pair = tuple[Client, Client]


def enters_lock(client: Client) -> None:
    with client.lock("x", ttl=60):
        pass


def enters_all(client: Client) -> None:
    with client.all("x", "y"):
        pass


def leaves_hold(client: Client) -> None:
    with client.lock("x", ttl=60).acquire():
        pass


def leaves_holds(client: Client) -> None:
    with client.all("x", "y").acquire():
        pass


def releases_lock(client: Client) -> None:
    lock = client.lock("x", ttl=60)
    lock.acquire()
    try:
        lock.release()
    finally:
        assert not lock._given


def is_free(other: Client) -> None:
    """Wait until both names are free, long before the lease ends."""
    until(lambda: not other.inspect(), "the renewer has released it", 10)


@pytest.mark.parametrize("use", [enters_lock, enters_all])
def test_an_interrupt_before_the_body(
    use: Callable[[Client], None], two: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = door.Door.enter

    def interrupted(self: Any, *given: Any) -> None:
        enter(self, *given)
        raise KeyboardInterrupt

    monkeypatch.setattr(door.Door, "enter", interrupted)
    with pytest.raises(KeyboardInterrupt):
        use(two[0])
    monkeypatch.undo()
    is_free(two[1])


@pytest.mark.parametrize(
    "owner, name, use",
    [
        (hold.HoldBase, "_release", enters_lock),
        (hold.HoldBase, "_release", leaves_hold),
        (hold.HoldBase, "_release", releases_lock),
        (multi.MultiHoldBase, "_release", enters_all),
        (multi.MultiHoldBase, "_release", leaves_holds),
    ],
)
def test_an_interrupt_of_a_release(
    owner: type,
    name: str,
    use: Callable[[Client], None],
    two: Pair,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def interrupted(self: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        use(two[0])
    monkeypatch.undo()
    is_free(two[1])


def test_an_interrupt_of_a_repeated_release_withdraws_the_claim_at_once(
    two: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [KeyboardInterrupt(), StoreUnavailable("planted")]
    leave = two[0]._ctx.store.leave

    async def failing(*given: Any) -> bool:
        if failures:
            raise failures.pop()
        return await leave(*given)

    held = two[0].lock("x", ttl=60).acquire()
    monkeypatch.setattr(two[0]._ctx.store, "leave", failing)
    with pytest.raises(KeyboardInterrupt):
        held.release()
    assert not two[1].inspect()


def test_a_close_tries_all_releases_and_raises_the_first_interrupt(
    space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    async def interrupted(self: Any, undo: object, *given: Any) -> None:
        tried.append(undo)
        raise KeyboardInterrupt(len(tried))

    client = Client(space)
    holds = [client.lock(name, ttl=60).acquire() for name in "xy"]
    monkeypatch.setattr(context.Context, "put_back", interrupted)
    with pytest.raises(KeyboardInterrupt) as first:
        client.close()
    assert (first.value.args, len(tried), client._ctx.ended) == ((1,), len(holds), True)


def test_an_interrupt_at_the_end_of_a_wait_leaves_no_claim_in_the_line(
    two: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, leave = two[1], two[1]._ctx.store.leave
    failures = [KeyboardInterrupt()]

    async def interrupted(*given: Any) -> bool:
        if failures:
            raise failures.pop()
        return await leave(*given)

    monkeypatch.setattr(waiting._ctx.store, "leave", interrupted)
    with two[0].lock("x", ttl=60):
        with pytest.raises(KeyboardInterrupt):
            waiting.lock("x").acquire(timeout=0.1)
        assert not two[0].inspect("x")[0].waiters


@pytest.mark.parametrize("ends", [False, True])
def test_only_an_interrupt_replaces_an_error_on_its_way(ends: bool) -> None:
    assert undos.replaces(KeyboardInterrupt(), ends) is not ends
    assert undos.replaces(GeneratorExit(), ends)
    assert not undos.replaces(OSError(), ends)
    assert not undos.replaces(None, ends)
