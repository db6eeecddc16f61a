"""Several threads release one hold at the same time, and each call returns its true end."""

from __future__ import annotations

from typing import Any

from ....core.model import Loss, State
from ....errors import LockLost
from ...promise import promised
from ..arena import SINGLE, Arena, raises
from ..registry import case
from ..struck import Overlaid

#: Primitives whose hold another thread or task may release.
SHARED = tuple(one for one in SINGLE if one != "reentrant")


def _meeting(at: Arena, several: bool = False) -> tuple[Any, list[bool]]:
    """Return a client whose next two releases overlap, and the list of the store's replies.

    Neither release gets its reply before both replies have arrived. A release that found no claim
    gets its reply first.
    """
    client = at.client()
    inner = client._ctx.store
    arrived: list[bool] = []
    out: list[bool] = []

    async def meet(answer: bool) -> None:
        arrived.append(answer)
        await at.until(lambda: len(arrived) >= 2)
        if answer:
            # On a name with several permits, each of the two releases can find a permit.
            await at.until(lambda: out or arrived.count(True) > 1)
            await at.sleep(0.02)
        out.append(answer)

    async def leave(*given: Any) -> bool:
        there: bool = await inner.leave(*given)
        await meet(there)
        return there

    async def leave_all(*given: Any) -> Any:
        answers = await inner.leave_all(*given)
        await meet(answers[0] is True)
        return answers

    verbs = {"leave_all": leave_all} if several else {"leave": leave}
    overlaid: Any = Overlaid(inner, **verbs)
    client._ctx.store = overlaid
    return client, arrived


@case(*SHARED)
async def two_releases_at_once_both_release_it(at: Arena) -> None:
    client, _ = _meeting(at)
    hold = await at.primitive.make(client, at.name).acquire()
    both = [at.start(hold.release) for _ in range(2)]
    assert [await one.result() for one in both] == [True, True]
    assert (hold.lost, hold.state) == (None, State.RELEASED)
    assert not await at.holders()


@case(*SHARED)
async def two_releases_at_once_of_a_broken_hold_both_say_that_it_was_lost(at: Arena) -> None:
    client, _ = _meeting(at)
    hold = await at.primitive.make(client, at.name, ttl=60.0).acquire()
    assert await at.others.break_(at.name, at.number(hold)) is True
    both = [at.start(hold.release) for _ in range(2)]
    with promised("no release of a broken hold returns that it was held"):
        assert [await one.result() for one in both] == [False, False]
        assert hold.lost is Loss.BROKEN


@case(*SHARED)
async def a_body_whose_hold_was_broken_does_not_end_silently_during_a_release(at: Arena) -> None:
    client, arrived = _meeting(at)
    others = []
    with promised("the end of a body reports a break"), raises(LockLost):
        async with at.primitive.make(client, at.name, ttl=60.0) as hold:
            assert await at.others.break_(at.name, at.number(hold)) is True
            others.append(at.start(hold.release))
            await at.until(lambda: arrived)
    assert [await one.result() for one in others] == [False]


@case("lock", needs=["visible_line"])
async def two_releases_at_once_of_several_names_report_only_a_break(at: Arena) -> None:
    for broken in (False, True):
        client, _ = _meeting(at, several=True)
        names = [at.fresh(f"{broken}{end}") for end in "ab"]
        hold = await client.all(*names).acquire()
        for one in hold._holds if broken else ():
            assert await at.others.break_(one.name, at.number(one)) is True
        both = [at.start(hold.release) for _ in range(2)]
        with promised("simultaneous releases return the true end of the hold"):
            assert [await one.result() for one in both] == [not broken] * 2
            assert [one.lost for one in hold._holds] == [Loss.BROKEN if broken else None] * 2
