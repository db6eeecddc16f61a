"""A verb that gets no reply, on both faces: its result is true, and nothing is left.

Without a reply the outcome is unknown, so the verb may report neither "busy" nor "lost". Each
fault is aimed at one name. Many tries run in parallel, and each thread has its own client.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.stores.redis.library import JOIN, KEEP, LEAVE, Script
from holdfast.testing.faces import FACES
from holdfast.testing.faults import (
    DROP_REPLY,
    DROP_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Armed,
    Fault,
    Proxy,
)
from tests.stores.redis.conftest import eventually
from tests.torture.scale import times

#: The number of parallel threads; each fault gets the same number of them.
CREW = 40
FAULTS = (DROP_REQUEST, DROP_REPLY, RESET_REQUEST, RESET_REPLY)
#: The number of tries of each verb with each fault, on each face.
TRIES = times(300, CREW // len(FAULTS))
#: Longer than a request, so that a claim that is left behind is seen.
TTL_S = 8
#: The renewer finishes a release within this time, even on a busy machine.
LATER_S = 5.0
#: Runs one aimed try, and returns its outcome.
Try = Callable[[AsyncClient, str, Callable[[], None]], Awaitable[str]]


async def join(client: AsyncClient, name: str, aim: Callable[[], None]) -> str:
    aim()
    try:
        hold = await client.lock(name, ttl=TTL_S).acquire(timeout=3.0)
    except StoreUnavailable:
        return "unavailable"
    assert hold, "it was called busy"
    assert await hold.release()
    return "held"


async def keep(client: AsyncClient, name: str, aim: Callable[[], None]) -> str:
    hold = await client.lock(name, ttl=TTL_S).acquire()
    aim()
    said = "kept"
    try:
        await hold.extend()
    except StoreUnavailable:
        said = "unavailable"
    hold.check()
    assert await hold.release()
    return said


async def leave(client: AsyncClient, name: str, aim: Callable[[], None]) -> str:
    hold = await client.lock(name, ttl=TTL_S).acquire()
    aim()
    try:
        assert await hold.release(), "it was called not held"
    except StoreUnavailable:
        return "unavailable"
    return "released"


@pytest.mark.usual(3)
@pytest.mark.parametrize(
    "work, script", [(join, JOIN), (keep, KEEP), (leave, LEAVE)], ids=["join", "keep", "leave"]
)
@pytest.mark.parametrize("face", ["sync", "aio"])
def test_what_is_not_answered_is_neither_called_busy_nor_lost_and_leaves_nothing(
    face: str, work: Try, script: Script, proxy: Proxy, own_name: str, other: Client
) -> None:
    said: Counter[str] = Counter()
    wrong: list[BaseException] = []

    def crew_member(at: int) -> None:
        # The protocol differs from thread to thread, the fault from pair to pair
        protocol, fault = 2 + at % 2, FAULTS[at // 2 % len(FAULTS)]

        async def main() -> None:
            client = FACES[face].client(f"redis://127.0.0.1:{proxy.port}?protocol={protocol}")
            async with client:
                for number in range(at // len(FAULTS), TRIES, CREW // len(FAULTS)):
                    found = await one(client, f"{own_name}:{at}:{number}:", fault)
                    said[f"{fault.what} {fault.of}: {found}"] += 1
                # The renewer withdraws suspect claims; closing waits for that only briefly
                until = time.monotonic() + LATER_S
                while other.inspect(f"{own_name}:{at}:") and time.monotonic() < until:
                    await FACES[face].sleep(0.02)

        try:
            FACES[face].run(main, 900)
        except BaseException as failure:
            wrong.append(failure)

    async def one(client: AsyncClient, name: str, fault: Fault) -> str:
        armed: list[Armed] = []

        def aim() -> None:
            def meant(sent: bytes) -> bool:
                return script.sha in sent and name.encode() in sent

            armed.append(proxy.arm(meant, fault))

        found = await work(client, name, aim)
        assert armed[0].hits == 1
        return found

    threads = [threading.Thread(target=crew_member, args=(at,)) for at in range(CREW)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{face}, {script.name}:", ", ".join(f"{what} {n}" for what, n in sorted(said.items())))
    assert wrong == []
    assert said.total() == TRIES * len(FAULTS)
    # Then nothing is left, long before a lease would expire
    try:
        eventually(lambda: other.inspect(own_name) == [], LATER_S)
    except AssertionError:
        raise AssertionError(other.inspect(own_name)) from None
