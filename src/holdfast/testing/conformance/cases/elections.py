"""The election: one client leads, the next takes over, and observers see the leader."""

from __future__ import annotations

from ....core.model import Loss
from ....errors import LockLost, NotHeld
from ..arena import Arena, raises
from ..registry import case


@case("election")
async def one_leads_until_it_resigns_and_the_next_takes_over(at: Arena) -> None:
    async def campaign() -> bool:
        term = await rival.campaign()
        assert term is not None
        won.set()
        await over.wait()
        return await rival.resign()

    ours, rival = at.locks.election(at.name), at.others.election(at.name)
    won, over = at.flag(), at.flag()
    assert await ours.leader() is None
    term = await ours.campaign()
    assert term is not None
    candidate = at.start(campaign)
    await at.line(waiters=1)
    leader = await rival.leader()
    assert leader == (at.locks.owner, term.fence)
    assert await ours.resign() is True
    await won.wait()
    following = await ours.leader()
    assert following is not None
    assert following.owner == at.others.owner
    assert following.fence > term.fence
    over.set()
    assert await candidate.result() is True
    assert await ours.leader() is None


@case("election")
async def a_campaign_ends_in_time(at: Arena) -> None:
    async with at.locks.election(at.name):
        assert await at.others.election(at.name).campaign(timeout=0.1) is None
        line = await at.look()
    assert line is not None
    assert line.waiters == ()


@case("election")
async def who_does_not_lead_can_not_resign(at: Arena) -> None:
    async with at.locks.election(at.name) as term:
        with raises(NotHeld):
            await at.others.election(at.name).resign()
        term.check()


@case("election")
async def run_leads_while_its_function_runs(at: Arena) -> None:
    async def main(term: object) -> str:
        leader = await at.others.election(at.name).leader()
        assert leader is not None
        assert leader.fence == term.fence  # type: ignore[attr-defined]
        return "done"

    assert await at.locks.election(at.name).run(main) == "done"
    assert not await at.holders()


@case("election")
async def run_reports_a_lost_term_and_frees_it_after_a_failure(at: Arena) -> None:
    async def deposed(term: object) -> None:
        await at.others.break_(at.name, term.fence)  # type: ignore[attr-defined]

    async def failing(term: object) -> None:
        raise KeyError("the leader's own")

    with raises(LockLost) as caught:
        await at.locks.election(at.name).run(deposed)
    assert caught.error.reason is Loss.BROKEN
    with raises(KeyError):
        await at.locks.election(at.name).run(failing)
    assert not await at.holders()


@case("election")
async def observers_see_each_new_leader_and_disturb_no_candidate(at: Arena) -> None:
    seen = []
    watched = at.others.election(at.name)

    async def observe() -> None:
        async for leader in watched.observe(every=0.01):
            seen.append(leader)
            if len(seen) == 4:
                return

    observer = at.start(observe)
    await at.until(lambda: len(seen) == 1)
    fences = []
    for election in (at.locks.election(at.name), at.others.election(at.name)):
        async with election as term:
            fences.append(term.fence)
            await at.until(lambda: seen[-1] is not None and seen[-1].fence == fences[-1])
            line = await at.look()
            assert line is not None
            assert len(line.claims) == 1
        if len(fences) == 1:
            await at.until(lambda: seen[-1] is None)
    await observer.result()
    assert [leader and leader.fence for leader in seen] == [None, fences[0], None, fences[1]]
