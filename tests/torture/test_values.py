"""Generated values through queues and guards of every store: unchanged, or refused before
storing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import Client, ConfigError
from holdfast.testing.promise import promised
from holdfast.url import find
from tests import values
from tests.shared_stores import STORES, url_of
from tests.torture.scale import seed_of, times

#: Number of values in one round of putting and taking.
BATCH = 200
#: Number of values for a store in one test, and number of such tests for a store. With
#: ``HOLDFAST_TORTURE=full`` that is 100,000 values, and no test takes a minute.
VALUES, PARTS = times(1000, 200), times(100, 1)


def having(what: str) -> list[str]:
    """Return the stores that have queues, or guards."""
    return [one for one in STORES if getattr(find(f"{one}://")[0].CAPABILITIES, what)]


def batches(part: int) -> Iterator[list[tuple[str, Any, bool]]]:
    """Yield all values of this part in batches: each with an id, and whether it comes back."""
    rolls = values.Rolls(seed_of("values") + part)
    drawn = ((str(nth), *values.drawn(rolls)) for nth in range(VALUES))
    while batch := list(itertools.islice(drawn, BATCH)):
        yield batch


@pytest.mark.usual(2)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("scheme", having("queues"))
def test_a_payload_comes_back_unchanged_or_is_refused_at_the_put(
    scheme: str, part: int, request: pytest.FixtureRequest, own_name: str
) -> None:
    with Client(url_of(scheme, request, own_name)) as client:
        queue = client.queue(own_name)
        for batch in batches(part):
            good = {nth: value for nth, value, comes_back in batch if comes_back}
            jobs = [{"id": nth, "payload": value} for nth, value in good.items()]
            for nth, value, comes_back in batch:
                if not comes_back:
                    with pytest.raises(ConfigError, match="comes back unchanged; payload"):
                        queue.put(value, id=nth)
            odd = next({"id": nth, "payload": value} for nth, value, well in batch if not well)
            with pytest.raises(ConfigError, match="comes back unchanged; payload"):
                queue.put_many([*jobs, odd])
            assert queue.stats().waiting == 0
            queue.put_many(jobs)
            while good:
                taken = queue.take_many(BATCH, timeout=5)
                for job in taken:
                    with promised("a payload comes back unchanged"):
                        assert values.back(job.payload) == values.back(good.pop(job.id))
                assert all(queue.ack_many(taken))


@pytest.mark.usual(2)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("scheme", having("guards"))
def test_a_guards_value_comes_back_unchanged_or_is_refused(
    scheme: str, part: int, request: pytest.FixtureRequest, own_name: str
) -> None:
    url = url_of(scheme, request, own_name)
    with Client(url) as client, Client(url) as other:
        guard, reader = client.guard(own_name, ttl=3600), other.guard(own_name, ttl=3600)
        for batch in batches(part):
            for nth, value, comes_back in batch:
                if comes_back:
                    got = guard.get(lambda value=value: value, key=nth)
                    assert values.back(got) == values.back(value)
                else:
                    with pytest.raises(ConfigError, match="comes back unchanged; value"):
                        guard.get(lambda value=value: value, key=nth)
            found = reader.get_many([nth for nth, *_ in batch], lambda nth: f"none at {nth}")
            for nth, value, comes_back in batch:
                with promised("a guard's value comes back unchanged"):
                    expected = values.back(value if comes_back else f"none at {nth}")
                    assert values.back(found[nth]) == expected
