"""A holder on the minority side of a partition notices before the majority grants again."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from holdfast import Client, StoreUnavailable
from tests.servers.netns import Islands
from tests.servers.zookeeper import Ensemble
from tests.stores.zookeeper.conftest import eventually, many
from tests.torture.scale import figures, times

SESSION_S = 3.0


@pytest.fixture(scope="module")
def islands() -> Iterator[Islands]:
    with Islands() as made:
        yield made


@pytest.fixture(scope="module")
def ensemble(islands: Islands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    # syncLimit as in the configuration that comes with ZooKeeper
    folder = tmp_path_factory.mktemp("partition")
    with Ensemble(folder, "syncLimit=5", places=islands.places()) as made:
        yield made


@pytest.mark.parametrize("where", ["follower", "leader"])
def test_a_holder_that_is_cut_off_knows_before_the_majority_grants(
    where: str, ensemble: Ensemble, islands: Islands
) -> None:
    ahead = []
    for turn in range(times(20, 1)):
        ensemble.settle()
        alone = ensemble.leader if where == "leader" else ensemble.followers[0]
        others = ",".join(one.place for one in ensemble.servers if one is not alone)
        # Given a holder whose server is about to be cut off, and a waiter on the other side
        with (
            Client(f"zookeeper://{alone.place}?session={SESSION_S}") as lonely,
            Client(f"zookeeper://{others}?session={SESSION_S}") as rival,
        ):
            number = ensemble.servers.index(alone)
            ahead.append(_cut_off(f"{where}-{turn}", lonely, rival, number, islands))
        assert ahead[-1] > 0
    print(figures(f"known before the majority granted, holder on the {where}", ahead))
    print(f"the shortest of them: {min(ahead) * 1e3:.0f} ms")


def _cut_off(name: str, lonely: Client, rival: Client, number: int, islands: Islands) -> float:
    """Cut the holder's server off; return the seconds from its knowledge to the next grant."""
    hold = lonely.lock(name, ttl=SESSION_S).acquire()
    assert hold is not None
    known: list[float] = []
    granted: list[tuple[float, int]] = []

    def watch() -> None:
        while hold.lost is None:
            time.sleep(0.002)
        known.append(time.monotonic())

    def wait() -> None:
        # On a busy machine an election may take longer than the wait for a silent store
        while not granted:
            with (
                contextlib.suppress(StoreUnavailable),
                rival.lock(name, ttl=SESSION_S, timeout=60) as later,
            ):
                granted.append((time.monotonic(), later.fence))

    threads = [threading.Thread(target=one) for one in (watch, wait)]
    for thread in threads:
        thread.start()
    eventually(lambda: many(rival, name) == 2)
    time.sleep(1.1)  # it was renewed
    islands.cut_off(number)
    try:
        for thread in threads:
            thread.join(60)
    finally:
        islands.heal()
    ((at, fence),) = granted
    assert fence > hold.fence
    # And its release leaves the next hold alone
    assert hold.release() is False
    return at - known[0]
