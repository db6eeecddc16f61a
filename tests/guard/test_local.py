"""Values that are kept in this process, and the counts of a guard."""

from __future__ import annotations

from tests.faced import At


async def test_a_value_that_was_read_is_read_no_second_time(at: At) -> None:
    await at.guard().get(at.source.compute)
    guard, gate = at.gated(local_ttl=60)
    assert [await guard.get(at.source.compute) for _ in range(3)] == [0, 0, 0]
    assert gate.calls["read"] == 1
    counts = await guard.stats()
    assert (counts.hits, counts.near) == (3, 2)


async def test_a_value_that_came_instead_of_the_refresh_lease_is_kept_too(at: At) -> None:
    guard, gate = at.gated(local_ttl=60)
    other = at.guard()

    async def sooner() -> None:
        await other.get(at.source.compute)

    gate.before["begin"] = sooner
    assert [await guard.get(at.source.compute) for _ in range(2)] == [0, 0]
    assert (gate.calls["read"], at.source.asked) == (1, 1)
    counts = await guard.stats()
    assert (counts.hits, counts.near) == (2, 1)


async def test_values_that_were_read_together_are_kept_too(at: At) -> None:
    other, compute = at.guard(), at.source.compute
    for key in "ab":
        await other.get(compute, key=key)
    guard, gate = at.gated(local_ttl=60)
    for _ in range(2):
        assert await guard.get_many(["a", "b"], lambda _: compute()) == {"a": 0, "b": 0}
    assert gate.calls["read"] == 1
    counts = await guard.stats()
    assert (counts.hits, counts.near) == (4, 2)


async def test_a_local_value_that_is_no_longer_fresh_is_not_served(at: At) -> None:
    guard, _ = at.gated(ttl=0.3, local_ttl=60)
    assert await guard.get(at.source.compute) == 0
    at.source.version = 1
    await at.face.sleep(0.4)
    assert await guard.get(at.source.compute) == 1


async def test_old_values_and_values_without_the_lease_are_counted(at: At) -> None:
    options = {"ttl": 0.2, "stale": 60, "lease": 60, "timeout": 0.1, "on_timeout": "compute"}
    first, other, source = at.guard(**options), at.guard(**options), at.source
    await first.get(source.compute, key="stale")
    await at.face.sleep(0.3)

    async def slow(key: str) -> int:
        return await first.get(source.slow, key=key)

    async def leased() -> bool:
        return all([(await first.inspect(key)).owner for key in ("stale", "computes")])

    actors = [at.start(slow, key) for key in ("stale", "computes")]
    await at.until(leased, "both are computed")
    for what in ("stale", "computes"):
        before = getattr(await other.stats(), what)
        assert await other.get(source.compute, key=what) == 0
        assert getattr(await other.stats(), what) == before + 1
    source.go.set()
    for actor in actors:
        await actor.result()
