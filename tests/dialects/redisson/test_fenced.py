"""FencedLock: the fencing token from Redisson's counter."""

from __future__ import annotations

import pytest

from holdfast import NotSupported

from .conftest import Play, Scene


def test_each_grant_draws_a_token_that_the_peers_count_on_from(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client("fenced=true")
        counter = f"redisson_lock_token:{{{at.name}}}"
        assert client.supports("fences")
        at.redis.set(counter, 40)
        for fence in (41, 42):
            async with client.lock(at.name) as hold:
                assert hold.fence == fence
                (line,) = await client.inspect(at.name, exact=True)
                assert line.holders[0].fence == fence
        assert at.redis.get(counter) == b"42"
        assert at.redis.ttl(counter) == -1

    play(text)


def test_a_refused_try_draws_no_token(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client("fenced=true")
        async with client.lock(at.name) as hold:
            await at.in_vain(client.lock(at.name), 0.05)
            assert at.redis.get(f"redisson_lock_token:{{{at.name}}}") == b"%d" % hold.fence

    play(text)


def test_a_fenced_hold_is_broken_by_its_token_alone(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client("fenced=true")
        hold = await client.lock(at.name).acquire()
        assert await client.break_(at.name, hold.fence + 1) is False
        assert await client.break_(at.name, hold.fence) is True
        assert await at.give_back(hold) is False

    play(text)


def test_a_plain_lock_refuses_a_fence(play: Play) -> None:
    async def text(at: Scene) -> None:
        client = at.client()
        assert not client.supports("fences")
        async with client.lock(at.name) as hold:
            with pytest.raises(NotSupported, match="gives no fences"):
                _ = hold.fence

    play(text)
