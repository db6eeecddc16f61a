"""Waiters are woken or poll, leave no file, and lines have a maximum length."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast.core.model import Full, Held, Waiting
from holdfast.runtime.blocking import boottime
from holdfast.stores.sqlite.blocking import lines, wake
from holdfast.testing import lag
from holdfast.testing.faces import Face
from tests.fenced.process import Child
from tests.stores.sqlite.desk import Desk, claim
from tests.stores.sqlite.products import Use, each_face, each_product, idle, job
from tests.stores.sqlite.test_death import holds

#: Options of the URL, and maximum seconds until a waiter gets what another client returned. A
#: waiter that is not woken would ask again after a second at the earliest.
WAYS = {"push": ("", 0.6), "poll": ("?wake=poll", 1.0)}


@pytest.mark.usual(12)
@each_face
@each_product
@pytest.mark.parametrize("way", WAYS)
def test_a_waiter_gets_soon_what_another_client_returns_and_leaves_no_file(
    path: Path, way: str, use: Use, face: Face
) -> None:
    options, bound = WAYS[way]

    async def soon() -> str:
        return "value"

    async def main() -> None:
        url = f"sqlite://{path}{options}"
        async with face.client(url) as here, face.client(url) as there:
            if use is job:
                await here.queue("q").put_many(["first", "second"], group="g")
            inside, go = face.flag(), face.flag()

            async def slow() -> str:
                inside.set()
                await go.wait()
                return "value"

            # Given a holder and a waiter, for the second time
            first = face.start(partial(use, here, slow, 5.0))
            await inside.wait()
            with pytest.raises(TimeoutError):
                await use(there, soon, 0.02)
            assert idle(path) == []
            waiter = face.start(partial(use, there, soon, 10.0))
            await face.sleep(0.1)
            assert not waiter.finished
            # When the first client has ended its work
            begun = time.monotonic()
            go.set()
            await first.result()
            # Then the other client gets it soon
            await waiter.result()
            assert time.monotonic() - begun < bound + lag.since(begun)
            assert idle(path) == []

    face.run(main, 60.0)
    left = [os.listdir(one) for one in path.parent.glob("*.d/sessions")]
    assert left
    assert not any(left), left


def test_where_sockets_dont_work_waiters_poll(
    monkeypatch: pytest.MonkeyPatch, here: Desk, there: Desk
) -> None:
    monkeypatch.setattr(wake.Post, "open_box", lambda *_: None)
    fence = here.hold(held := claim())
    waiting = there.join(wanted := claim())
    assert isinstance(waiting, Waiting)
    assert there.wait(wanted, waiting, 0.03) is None
    assert here.leave(held, fence)
    assert there.wait(wanted, waiting, 2.5) is not None


def test_without_sockets_a_death_is_noticed_too(path: Path, desk: Callable[..., Desk]) -> None:
    # Given a waiter that must poll, and a holder that dies
    here = desk("?wake=poll")
    with Child(partial(holds, path)) as child:
        child.hear()
        waiting = here.join(wanted := claim())
        assert isinstance(waiting, Waiting)
        child.send(signal.SIGKILL)
    died = boottime()
    # Then the waiter holds soon
    while not isinstance(here.turn(wanted, waiting.ticket), Held):
        here.wait(wanted, waiting, 0.9)
    assert boottime() - died < 0.5 + lag.since(died)


def test_a_line_is_no_longer_than_a_line_may_be(
    monkeypatch: pytest.MonkeyPatch, here: Desk
) -> None:
    monkeypatch.setattr(lines, "WAITERS_MAX", 3)
    here.hold(claim())
    for _ in range(3):
        assert isinstance(here.join(claim()), Waiting)
    # When one more client comes, then it is refused
    assert here.join(claim()) == Full(3)
    assert len(here.lines()[0].waiters) == 3
