"""The public API as a type checker sees it. Checked by mypy and pyright, never run.

A line that must be an error carries ``type: ignore`` with the error's name. mypy reports such a
line when it is no longer an error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import assert_type

from holdfast import (
    AsyncClient,
    AsyncDelivery,
    AsyncHold,
    AsyncLock,
    Client,
    Delivery,
    EntryRecord,
    GuardCounts,
    Hold,
    JobRecord,
    Leader,
    LineRecord,
    Lock,
    LockLost,
    Loss,
    NotAcquired,
    State,
    lock,
)
from holdfast.aio import AsyncMultiHold
from holdfast.fenced import FencedFile, SqlFence
from holdfast.sync import Election, MultiHold, Semaphore

locks = Client("memory://", ttl=10, label="api")
assert_type(locks, Client)
Client()
Client(Path("locks.db"))
Client(42)  # type: ignore[arg-type]


def one_lock() -> None:
    guard = locks.lock("invoice:42", ttl=30, timeout=5)
    assert_type(guard, Lock)
    assert_type(guard.acquire(), Hold)
    assert_type(guard.acquire(True), Hold)
    assert_type(guard.acquire(timeout=None), Hold)
    assert_type(guard.acquire(timeout=-1), Hold)
    assert_type(guard.acquire(timeout=5), Hold | None)
    assert_type(guard.acquire(blocking=False), Hold | None)
    assert_type(guard.acquire(False), Hold | None)
    assert_type(guard.locked(), bool)
    assert_type(guard.release(), bool)
    with guard as inside:
        assert_type(inside, Hold)
    if maybe := guard.acquire(timeout=0.5):
        assert_type(maybe, Hold)
    guard.acquire(blocking=False).release()  # type: ignore[union-attr]
    locks.lock(42)  # type: ignore[arg-type]
    locks.lock("x", 5)  # type: ignore[call-arg]
    locks.lock("x", key="y")  # type: ignore[call-arg]
    with lock("nightly-report", timeout=5) as easy:
        assert_type(easy, Hold)


class Users:
    realm = "a"

    @locks.cached("user:{self.realm}:{user_id}", ttl=60)
    def get(self, user_id: int) -> str:
        return f"{self.realm}{user_id}"

    @staticmethod
    @locks.cached("free:{user_id}", ttl=60)
    def free(user_id: int) -> str:
        return f"{user_id}"

    @locks.cached("known:{user_id}", ttl=60)
    @classmethod
    def known(cls, user_id: int) -> str:
        return f"{cls.realm}{user_id}"


def one_cached() -> None:
    Users.known(1)  # type: ignore[call-arg, arg-type]  # see docs/guard.md
    assert_type(Users().get(1), str)
    Users().get("1")  # type: ignore[arg-type]
    assert_type(Users.get(Users(), 1), str)
    assert_type(Users.get.invalidate(Users(), 1), int)
    assert_type(Users().get.invalidate(1), int)
    Users().get.invalidate("1")  # type: ignore[arg-type]
    assert_type(Users.free(1), str)
    assert_type(Users.free.invalidate(1), int)


def one_queue() -> None:
    queue = locks.queue("refunds")
    assert_type(queue.take(), Delivery)
    assert_type(queue.take(timeout=5), Delivery | None)
    with queue.take() as job:
        assert_type(job, Delivery)
    with queue.taking(timeout=5) as maybe:
        assert_type(maybe, Delivery | None)
    with queue.taking() as one:
        assert_type(one, Delivery)


def words_of_the_field() -> None:
    """The new public names of options and methods; each former name is an error."""
    queue = locks.queue(
        "refunds", interval_from="take", dedup_window=60, retry_delay=1, retry_delay_max=60
    )
    locks.queue("refunds", from_="take")  # type: ignore[call-arg]
    locks.queue("refunds", window=60)  # type: ignore[call-arg]
    locks.queue("refunds", retry_first=1)  # type: ignore[call-arg]
    locks.queue("refunds", retry_max=60)  # type: ignore[call-arg]
    assert_type(queue.retry_dead(), int)
    queue.revive()  # type: ignore[attr-defined]
    assert_type(queue.jobs(limit=5), list[JobRecord])
    queue.jobs(most=5)  # type: ignore[call-arg]
    for job in queue.take_many(5):
        assert_type(job.release(), bool)
        job.give_back()  # type: ignore[attr-defined]
    guard = locks.guard(
        "rates",
        ttl=60,
        local_ttl=1,
        local_entries_max=10,
        failure_ttl_max=60,
        on_store_error="compute",
    )
    locks.guard("rates", ttl=60, local=1)  # type: ignore[call-arg]
    locks.guard("rates", ttl=60, local_size=10)  # type: ignore[call-arg]
    locks.guard("rates", ttl=60, failure_max=60)  # type: ignore[call-arg]
    locks.guard("rates", ttl=60, on_down="compute")  # type: ignore[call-arg]
    assert_type(guard.inspect("usd"), EntryRecord)
    guard.look("usd")  # type: ignore[attr-defined]
    assert_type(guard.stats(), GuardCounts)
    can = locks.capabilities
    assert_type(can.visible_line, bool)
    assert_type(can.wakes_waiters, bool)
    assert_type(can.wakeup_grants, bool)
    assert_type(can.permits_reset_when_idle, bool)
    can.push  # type: ignore[attr-defined]  # noqa: B018


def one_hold(hold: Hold) -> None:
    assert_type(hold.name, str)
    assert_type(hold.owner, str)
    assert_type(hold.fence, int)
    assert_type(hold.state, State)
    assert_type(hold.lost, Loss | None)
    assert_type(hold.remaining(), float)
    assert_type(hold.extend(), float)
    assert_type(hold.extend(5), float)
    assert_type(hold.release(), bool)
    assert_type(hold.wait_lost(1.5), Loss | None)
    assert_type(hold.detach(), str)
    assert_type(locks.adopt("token"), Hold)
    hold.check()
    with hold as same:
        assert_type(same, Hold)
    hold.fence = 5  # type: ignore[misc]


def the_fields_of_errors(late: NotAcquired, lost: LockLost) -> None:
    assert_type(late.name, str)
    assert_type(late.holder, str)
    assert_type(late.waited, float)
    assert_type(lost.reason, Loss | None)


def told(hold: Hold, reason: Loss) -> None:
    """A function that on_lost accepts."""


locks.lock("x", on_lost=told)
locks.lock("x", on_lost="told")  # type: ignore[arg-type]


@locks.lock("user:{user_id}", timeout=2)
def charge(user_id: int, amount: float = 1.0) -> str:
    return f"{user_id} {amount}"


assert_type(charge(1), str)
assert_type(charge(user_id=1, amount=2.0), str)
charge("1")  # type: ignore[arg-type]
charge(1, 2.0, 3)  # type: ignore[call-arg]


def others() -> None:
    pool = locks.semaphore("gpu", permits=4, weight=2)
    assert_type(pool, Semaphore)
    assert_type(pool.acquire(), Hold)
    assert_type(pool.acquire(timeout=1), Hold | None)
    assert_type(pool.resize(8), int | None)
    assert_type(pool.permits, int)
    assert_type(pool.available(), int)
    locks.semaphore("gpu", permits=4, on_conflict="shrug")  # type: ignore[arg-type]

    catalog = locks.rwlock("catalog")
    assert_type(catalog.read.acquire(), Hold)
    with catalog.read as reading:
        assert_type(reading, Hold)
    with catalog.write as writing:
        assert_type(writing, Hold)
        writing.downgrade()

    both = locks.all("a", locks.lock("b"), timeout=5)
    assert_type(both.acquire(), MultiHold)
    assert_type(both.acquire(timeout=1), MultiHold | None)
    with both as all_of_them:
        assert_type(all_of_them, MultiHold)
        assert_type(all_of_them.fences, dict[str, int])
        assert_type(all_of_them.holds, tuple[Hold, ...])

    vote = locks.election("scheduler")
    assert_type(vote, Election)
    assert_type(vote.campaign(), Hold)
    assert_type(vote.campaign(timeout=5), Hold | None)
    assert_type(vote.leader(), Leader | None)
    assert_type(vote.observe(), Iterator[Leader | None])
    assert_type(vote.run(lambda hold: hold.fence), int)

    assert_type(locks.inspect("invoice:"), list[LineRecord])
    with locks as same:
        assert_type(same, Client)


def fenced(hold: Hold) -> None:
    FencedFile("ledger").append(hold, b"line\n")
    FencedFile(Path("ledger")).replace(42, "text")
    assert_type(FencedFile("ledger").fence(), int)
    assert_type(SqlFence(), SqlFence)


# `tests/tidy/test_faces.py` compares the signatures of both faces; here is what must be awaited.
alocks = AsyncClient("memory://")


@alocks.lock("user:{user_id}", timeout=2)
async def acharge(user_id: int, amount: float = 1.0) -> str:
    return f"{user_id} {amount}"


class AsyncUsers:
    @alocks.cached("user:{self}:{user_id}", ttl=60)
    async def get(self, user_id: int) -> str:
        return f"{self}{user_id}"


async def one_async_lock() -> None:
    guard = alocks.lock("invoice:42", ttl=30, timeout=5, cancel_on_lost=True)
    assert_type(guard, AsyncLock)
    assert_type(await guard.acquire(), AsyncHold)
    assert_type(await guard.acquire(timeout=5), AsyncHold | None)
    assert_type(await guard.release(), bool)
    async with guard as inside:
        assert_type(inside, AsyncHold)
        inside.check()
        assert_type(await inside.extend(), float)
        assert_type(await inside.wait_lost(), Loss | None)
    assert_type(await alocks.adopt("token"), AsyncHold)
    with guard:  # type: ignore[attr-defined]
        pass
    assert_type(await acharge(1), str)
    await acharge("1")  # type: ignore[arg-type]
    assert_type(await AsyncUsers().get(1), str)
    await AsyncUsers().get("1")  # type: ignore[arg-type]


async def async_others() -> None:
    queue = alocks.queue("refunds")
    assert_type(await queue.take(), AsyncDelivery)
    async with queue.taking(timeout=5) as maybe:
        assert_type(maybe, AsyncDelivery | None)
    assert_type(await alocks.semaphore("gpu", permits=4).acquire(timeout=1), AsyncHold | None)
    async with alocks.rwlock("catalog").write as writing:
        await writing.downgrade()
    async with alocks.all("a", alocks.lock("b"), timeout=5) as all_of_them:
        assert_type(all_of_them, AsyncMultiHold)
    vote = alocks.election("scheduler")
    assert_type(await vote.campaign(timeout=5), AsyncHold | None)
    assert_type(vote.observe(), AsyncIterator[Leader | None])
    async with alocks as same:
        assert_type(same, AsyncClient)
    assert_type(await alocks.inspect(), list[LineRecord])
