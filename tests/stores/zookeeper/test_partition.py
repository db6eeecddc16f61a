"""A holder on the minority side of a partition notices before the majority grants again."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Client, StoreUnavailable
from tests.servers.netns import Islands
from tests.servers.zookeeper import Ensemble
from tests.stores.zookeeper.conftest import eventually
from tests.torture.scale import figures, times

SESSION_S = 3.0


@pytest.fixture(scope="module")
def islands() -> Iterator[Islands]:
    with Islands() as made:
        yield made


@pytest.fixture(scope="module")
def ensemble(islands: Islands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    folder: Path = tmp_path_factory.mktemp("partition")
    # syncLimit as in the configuration that comes with ZooKeeper
    with Ensemble(folder, "syncLimit=5", places=islands.places()) as made:
        yield made


@pytest.mark.parametrize("where", ["follower", "leader"])
def test_a_holder_that_is_cut_off_knows_before_the_majority_grants(
    where: str, ensemble: Ensemble, islands: Islands
) -> None:
    ahead = []
    for turn in range(times(20, 1)):
        ensemble.settle()
        leader = ensemble.leader
        alone = leader if where == "leader" else ensemble.followers[0]
        others = [one for one in ensemble.servers if one is not alone]
        name = f"{where}-{turn}"
        # Given a holder whose server is about to be cut off, and a waiter on the other side
        hosts = ",".join(one.place for one in others)
        with (
            Client(f"zookeeper://{alone.place}?session={SESSION_S}") as lonely,
            Client(f"zookeeper://{hosts}?session={SESSION_S}") as rival,
        ):
            hold = lonely.lock(name, ttl=SESSION_S).acquire()
            assert hold is not None
            known: list[float] = []
            granted: list[tuple[float, int]] = []

            def watch(hold: object = hold, known: list[float] = known) -> None:
                while hold.lost is None:  # type: ignore[attr-defined]
                    time.sleep(0.002)
                known.append(time.monotonic())

            def wait(
                rival: Client = rival,
                name: str = name,
                granted: list[tuple[float, int]] = granted,
            ) -> None:
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
            eventually(lambda rival=rival, name=name: len(rival.inspect(name)[0].claims) == 2)
            time.sleep(1.1)  # it was renewed
            # When the server is cut off
            islands.cut_off(ensemble.servers.index(alone))
            try:
                for thread in threads:
                    thread.join(60)
            finally:
                islands.heal()
            # Then the holder knew first, and its release leaves the next hold alone
            assert known
            assert granted
            ahead.append(granted[0][0] - known[0])
            assert ahead[-1] > 0
            assert granted[0][1] > hold.fence
            assert hold.release() is False
    print(figures(f"known before the majority granted, holder on the {where}", ahead))
    print(f"the shortest of them: {min(ahead) * 1e3:.0f} ms")
