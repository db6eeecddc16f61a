"""A primary is lost or replaced under load: one holder at a time, rising fences, all continue."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

import pytest

from holdfast import AsyncClient, Client, HoldfastError
from holdfast.runtime.blocking import boottime
from holdfast.testing.faces import FACES, Face
from holdfast.testing.histories import Recorder, judge
from tests.servers.cluster import Cluster
from tests.servers.sentinels import Watched
from tests.stores.redis.conftest import eventually
from tests.stores.redis.several.conftest import slot_for
from tests.torture.scale import FULL

THREADS = TASKS = 3
NAMES = 6
#: With `SURE` one replica has confirmed each grant. Without a replica only recovery protects.
SURE, PLAIN = "?replicas=1", ""
TTL_S, LONG_S = 3.0, 15.0
#: The time of load before the event; the least time of load after it.
CALM_S = 1.5
#: The time to detect the failure and promote, plus the grace period of recovery.
BACK_S = 30.0
#: The maximum time of a load.
LONGEST_S = 300.0


class Load:
    """Threads and tasks that take names in turn, and record what they got."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._over = threading.Event()
        self._numbers = itertools.count()
        self.files: list[Path] = []
        #: When each worker last held each name.
        self.held: dict[tuple[str, str], float] = {}
        self.errors: list[str] = []
        sync, aio = FACES.values()
        mine = [(sync, f"thread-{n}", 1) for n in range(THREADS)] + [(aio, "task", TASKS)]
        self._threads = [threading.Thread(target=self._client, args=one) for one in mine]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def everybody_held(self, since: float) -> bool:
        """Return whether each name has been held since then."""
        return all(
            any(at > since for (_, known), at in self.held.items() if known == name)
            for name in map(str, range(NAMES))
        )

    def _client(self, face: Face, label: str, workers: int) -> None:
        async def main() -> None:
            async with face.client(self._url, label=label) as locks:
                work = [partial(self._work, f"{label}-{n}", locks, face) for n in range(workers)]
                for one in [face.start(each) for each in work]:
                    await one.result(LONGEST_S)

        try:
            face.run(main, LONGEST_S)
        except BaseException as wrong:
            self.errors.append(repr(wrong))

    async def _work(self, who: str, locks: AsyncClient, face: Face) -> None:
        file = self._folder / who
        self.files.append(file)
        notes = Recorder(file, who)
        while not self._over.is_set():
            name = str(next(self._numbers) % NAMES)
            claim = notes.ask(name)
            try:
                hold = await locks.lock(name, ttl=TTL_S).acquire()
            except HoldfastError as wrong:
                notes.failed(claim, wrong)
                continue
            notes.held(claim, hold)
            self.held[who, name] = time.monotonic()
            await face.sleep(0.01)
            notes.leaving(claim)
            try:
                notes.left(claim, await hold.release())
            except HoldfastError as wrong:
                notes.lost(claim, wrong)
        notes.bye()


def goes_on(url: str, folder: Path, happens: Callable[[], object]) -> None:
    """Judge a load during which `happens` runs; at the end all names must be free."""
    with Load(url, folder) as load:
        begun = time.monotonic()
        eventually(lambda: load.everybody_held(begun), BACK_S)
        time.sleep(CALM_S)
        started = boottime()
        happens()
        changed = time.monotonic()
        eventually(lambda: load.everybody_held(changed), BACK_S)
        print(f"everybody held again {time.monotonic() - changed:.1f} s after it was done")
        time.sleep(CALM_S)
    assert load.errors == []
    verdict = judge(*(one.read_text().splitlines() for one in load.files), late_part=1.0)
    print(f"{verdict.events} events, {verdict.counts}, {boottime() - started:.1f} s")
    verdict.demand()
    with Client(url) as locks:
        eventually(lambda: not any(one.holders or one.waiters for one in locks.inspect("")), 10)


@pytest.mark.usual(1)
@pytest.mark.parametrize("how", ["told", "killed"])
def test_a_primary_of_a_cluster_is_replaced_under_load(
    how: str, tmp_path: Path, new_cluster: Callable[..., Cluster]
) -> None:
    cluster = new_cluster()
    url = cluster.url + (SURE if how == "told" else PLAIN)
    # Given the node that has one of the names of the load
    victim = cluster.owner(slot_for("0"))
    act = cluster.lose if how == "killed" else cluster.fail_over
    goes_on(url, tmp_path, lambda: act(victim))


@pytest.mark.usual(1)
@pytest.mark.parametrize("how", ["told", "killed"])
def test_a_primary_with_sentinels_is_replaced_under_load(
    how: str, tmp_path: Path, new_watched: Callable[..., Watched]
) -> None:
    watched = new_watched(hasty=not FULL)
    url = watched.url + SURE
    act = watched.lose_primary if how == "killed" else watched.fail_over
    goes_on(url, tmp_path, act)


def test_a_hold_outlives_its_primary(new_cluster: Callable[..., Cluster], own_name: str) -> None:
    """A holder on a node that dies keeps its hold if the replica takes over within the ttl."""
    cluster = new_cluster()
    with Client(cluster.url) as locks:
        names = [f"{own_name}-{number}" for number in range(20)]
        holds = [locks.lock(name, ttl=LONG_S).acquire() for name in names]
        cluster.lose(cluster.owner(slot_for(names[0])))
        # When the present nodes have renewed each hold (a hundredth of a lease is held back)
        whole = time.monotonic() + 0.99 * LONG_S
        eventually(
            lambda: all(time.monotonic() + one.remaining() >= whole for one in holds),
            1.2 * LONG_S,
        )
        for one in holds:
            one.check()
            assert one.release()
