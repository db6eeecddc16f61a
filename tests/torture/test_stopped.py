"""A holder that was stopped for longer than its ttl: when it continues, it relies on no hold and
writes nothing."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import AsyncClient, Client, LockLost, Loss
from holdfast.fenced import FencedFile
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from holdfast.testing.faults import Subject
from tests.torture.scale import times

lag.watch()

TTL_S = 0.15


@pytest.fixture
def quiet() -> Iterator[None]:
    """Silence the log, because holdfast logs losses as errors, and these tests cause them."""
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("holdfast").setLevel(logging.NOTSET)


def stop_outside(holder: Subject, url: str) -> None:
    """Stop the process, but not while it holds the file mutex, which it can take to renew."""
    with open(Path(url.removeprefix("sqlite://") + ".d") / "gate") as gate:
        while True:
            holder.stop()
            try:
                fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder.go_on()
            else:
                return


@pytest.mark.parametrize("act", ["guards", "guards_in_a_loop"])
def test_awake_again_it_neither_believes_nor_writes(act: str, url: str, tmp_path: Path) -> None:
    ledger = FencedFile(tmp_path / "ledger", durable=False)
    looked = wrote = remained = 0
    tries = times(200, 24)
    with (
        Client(url) as client,
        Subject(f"tests.torture.acts:{act}", url, str(tmp_path / "ledger"), TTL_S) as holder,
    ):
        for turn in range(tries):
            # Given a holder that is stopped
            holder.say("acquire")
            fence = holder.hear()
            stop_outside(holder, url)
            # When its ttl has expired, and another client holds and writes
            with client.lock("x", timeout=10) as hold:
                assert hold.fence > fence
                ledger.append(hold, f"{hold.fence}\n")
                if turn % 2:
                    # (In half of the turns the holder continues while the other client still
                    # holds.)
                    holder.go_on()
                    holder.say("look")
                    said = holder.hear()
            if not turn % 2:
                holder.go_on()
                holder.say("look")
                said = holder.hear()
            # Then it sees its hold as lost, and its late write is refused
            looked += said["looks"]
            wrote += said["wrote"]
            remained += said["remains"]
    print(f"{tries} tries: looks passed {looked}, late writes accepted {wrote}")
    assert (looked, wrote, remained) == (0, 0, 0)
    assert b"late" not in ledger.read()


@pytest.mark.usefixtures("quiet")
def test_an_event_loop_blocked_for_longer_than_the_ttl_gets_the_loss(url: str) -> None:
    told: list[Loss] = []
    went_on: list[bool] = []

    async def blocks(client: AsyncClient) -> None:
        # Given a body under asyncio that blocks its loop for longer than the ttl
        options = {"cancel_on_lost": True, "on_lost": lambda _, why: told.append(why)}
        async with client.lock("x", ttl=TTL_S, **options) as hold:  # type: ignore[arg-type]
            time.sleep(2 * TTL_S)
            # Then no check passes after that
            assert hold.lost is Loss.EXPIRED
            assert hold.remaining() == 0
            # And the body is cancelled at its next await
            await asyncio.sleep(10)
            went_on.append(True)

    async def main() -> None:
        async with AsyncClient(url) as client, AsyncClient(url) as other:
            for _ in range(times(10, 3)):
                with pytest.raises(LockLost) as failure:
                    await blocks(client)
                assert failure.value.reason is Loss.EXPIRED
                # And the name is free
                begun = boottime()
                async with other.lock("x", timeout=5):
                    assert boottime() - begun < 0.25 + lag.since(begun)

    asyncio.run(main())
    assert went_on == []
    assert set(told) == {Loss.EXPIRED}


@pytest.mark.usefixtures("quiet")
def test_a_loop_that_is_blocked_for_less_loses_nothing(url: str) -> None:
    async def main() -> None:
        client = AsyncClient(url)
        async with client, client.lock("x", ttl=5.0, cancel_on_lost=True) as hold:
            # Given a loop that is blocked repeatedly, in total for longer than the ttl
            for _ in range(6):
                time.sleep(1.0)
                await asyncio.sleep(0.02)
            # Then the hold is still held
            hold.check()

    asyncio.run(main())
