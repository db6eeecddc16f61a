"""Requests and replies that are lost, late or cut off: see ``tests/stores/lost.py``."""

from __future__ import annotations

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.testing.faults import HOLD_REQUEST, Proxy
from tests.servers.process import until
from tests.stores.lost import *  # noqa: F403
from tests.stores.lost import Look
from tests.stores.sql.bench import Bench
from tests.torture.scale import times


def test_a_late_copy_of_a_join_finds_a_tombstone(
    bench: Bench, by_proxy: Client, proxy: Proxy, own_name: str, line: Look
) -> None:
    def connections() -> int:
        by_proxy.inspect("nobody", exact=True)  # closes the given-up ones that got a reply
        return proxy.connections

    for number in range(times(50, 5)):
        name = f"{own_name}:{number}"
        # Given a join that is on its way while its client gives up and withdraws the claim
        before = bench.buried()
        late = proxy.arm(bench.word("join"), HOLD_REQUEST)
        with pytest.raises(StoreUnavailable):
            by_proxy.lock(name).acquire(timeout=0.05)
        until(lambda: bench.buried() - before, "it is withdrawn")  # noqa: B023
        # When the join arrives late
        late.let_go()
        until(lambda: connections() <= 2, "its connection has ended")
        # Then no claim holds
        until(lambda: line(name) is None, "nobody is left")  # noqa: B023
