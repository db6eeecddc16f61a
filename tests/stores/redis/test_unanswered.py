"""A verb that gets no reply, on both faces: its result is true, and nothing is left.

Without a reply the outcome is unknown, so the verb may report neither "busy" nor "lost". Each
fault is aimed at one name. Many tries run in parallel, and each thread has its own client.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from holdfast import AsyncClient, Client, StoreUnavailable
from holdfast.stores.redis.library import JOIN, JOIN_FREE, LEAVE, LEAVE_ALL, RENEW, Script
from holdfast.testing.faces import Face
from holdfast.testing.faults import (
    DROP_REPLY,
    DROP_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Armed,
    Fault,
    Proxy,
)
from tests.stores.redis.conftest import Look, eventually, fences
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
#: Runs one aimed try on these names, and returns its outcome.
Aim = Callable[[], None]
Try = Callable[[AsyncClient, list[str], Aim, Look], Awaitable[str]]


def lock_of(client: AsyncClient, names: list[str]) -> Any:
    wanted = [client.lock(name, ttl=TTL_S) for name in names]
    return wanted[0] if len(wanted) == 1 else client.all(*wanted)


async def enter(client: AsyncClient, names: list[str], aim: Callable[[], None], line: Look) -> str:
    aim()
    try:
        hold = await lock_of(client, names).acquire(timeout=3.0)
    except StoreUnavailable:
        return "unavailable"
    assert hold, "it was called busy"
    # Each claim is in its line once
    held = {names[0]: hold.fence} if len(names) == 1 else hold.fences
    assert {name: fences(line(name)) for name in names} == {one: [held[one]] for one in names}
    assert await hold.release()
    return "held"


async def renew(client: AsyncClient, names: list[str], aim: Aim, line: Look) -> str:
    hold = await lock_of(client, names).acquire()
    aim()
    said = "kept"
    try:
        await hold.extend()
    except StoreUnavailable:
        said = "unavailable"
    hold.check()
    assert await hold.release()
    return said


async def leave(client: AsyncClient, names: list[str], aim: Aim, line: Look) -> str:
    hold = await lock_of(client, names).acquire()
    aim()
    try:
        assert await hold.release(), "it was called not held"
    except StoreUnavailable:
        return "unavailable"
    return "released"


WORKS: dict[str, tuple[Try, Script, int]] = {
    "join": (enter, JOIN, 1),
    "renew": (renew, RENEW, 1),
    "leave": (leave, LEAVE, 1),
    "several": (enter, JOIN_FREE, 2),
    "leave several": (leave, LEAVE_ALL, 2),
}


def aimed(proxy: Proxy, armed: list[Armed], script: Script, name: str, fault: Fault) -> None:
    """Let the fault meet the next request of this script about this name."""
    armed.append(proxy.arm(lambda sent: script.sha in sent and name.encode() in sent, fault))


@pytest.mark.usual(5)
@pytest.mark.parametrize("work, script, many", WORKS.values(), ids=WORKS)
def test_what_is_not_answered_is_neither_called_busy_nor_lost_and_leaves_nothing(
    face: Face,
    work: Try,
    script: Script,
    many: int,
    proxy: Proxy,
    own_name: str,
    other: Client,
    line: Look,
) -> None:
    said: Counter[str] = Counter()
    wrong: list[BaseException] = []

    def crew_member(at: int) -> None:
        # The protocol differs from thread to thread, the fault from pair to pair
        protocol, fault = 2 + at % 2, FAULTS[at // 2 % len(FAULTS)]

        async def main() -> None:
            async with face.client(f"redis://127.0.0.1:{proxy.port}?protocol={protocol}") as client:
                for number in range(at // len(FAULTS), TRIES, CREW // len(FAULTS)):
                    names = [f"{own_name}:{at}:{number}:{part}" for part in range(many)]
                    armed: list[Armed] = []
                    aim = partial(aimed, proxy, armed, script, names[0], fault)
                    said[f"{fault.what} {fault.of}: {await work(client, names, aim, line)}"] += 1
                    assert armed[0].hits == 1
                # The renewer withdraws suspect claims; closing waits for that only briefly
                until = time.monotonic() + LATER_S
                while other.inspect(f"{own_name}:{at}:") and time.monotonic() < until:
                    await face.sleep(0.02)

        try:
            face.run(main, 900)
        except BaseException as failure:
            wrong.append(failure)

    threads = [threading.Thread(target=crew_member, args=(at,)) for at in range(CREW)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(", ".join(f"{what} {number}" for what, number in sorted(said.items())))
    assert wrong == []
    assert said.total() == TRIES * len(FAULTS)
    # Then nothing is left, long before a lease would expire
    try:
        eventually(lambda: other.inspect(own_name) == [], LATER_S)
    except AssertionError:
        raise AssertionError(other.inspect(own_name)) from None
