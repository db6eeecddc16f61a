"""Runs customers, nodes, workers and the bank together, and kills some of the processes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from holdfast import StoreUnavailable
from holdfast.sync import Client, Queue

from .crew import Crew, Strike
from .ledger import Entry, Ledger
from .load import Asked, Customers
from .settings import Settings, refunds_of
from .web import ask

#: Maximum seconds of each wait.
END_S = 60.0


class Scale(NamedTuple):
    """The size of a run. ``strikes``: number of processes that are killed during the run."""

    nodes: int = 3
    workers: int = 3
    merchants: int = 6
    refunds: int = 15
    strikes: int = 8
    seed: int = 0


class Seen(NamedTuple):
    """The results of a run, for the check and the picture. All times are of one clock.

    ``left``: a text about jobs that are left in the queue. ``told``: the notices, by refund.
    """

    interval: float
    asked: list[Asked]
    calls: list[dict[str, Any]]
    wrongs: list[str]
    entries: list[Entry]
    strikes: list[Strike]
    left: str
    told: dict[str, str]


def play(
    folder: Path,
    known: Settings,
    scale: Scale,
    *,
    store_dies: Callable[[], object] | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> Seen:
    """Run the example with its files in ``folder``; return the results.

    ``known`` contains the store's URL; the run makes its own bank and ledger. ``store_dies`` kills
    the store's server and starts it again; it is called once, during the run.
    """
    known = known._replace(ledger=str(folder / "ledger.db"))
    ledger = Ledger(known.ledger)
    with Crew(known, folder / "log") as crew, Client(known.store, label="play") as client:
        for number in range(1, scale.nodes + 1):
            crew.node(f"node-{number}")
        for number in range(1, scale.workers + 1):
            crew.worker(f"worker-{number}")
        crew.ready()
        customers = Customers(crew.nodes, scale.merchants, scale.refunds)
        customers.start()
        queue = refunds_of(client, crew.known)
        _strike(crew, ledger, scale, store_dies, tell)
        _until(lambda: not customers.busy and not _waiting(queue))
        _, bank = ask(f"{crew.known.bank}/calls")
        return Seen(
            known.interval,
            customers.asked,
            bank["calls"],
            bank["wrongs"],
            ledger.entries(),
            crew.strikes,
            _left(queue),
            ledger.outbox(),
        )


def _strike(
    crew: Crew,
    ledger: Ledger,
    scale: Scale,
    store_dies: Callable[[], object] | None,
    tell: Callable[[str], object],
) -> None:
    """Kill workers and nodes in turns, each after some more refunds are settled."""
    dice = random.Random(scale.seed)
    for number in range(scale.strikes):
        part = (number + 1) / (scale.strikes + 1)
        _until(partial(_has, ledger, part * scale.merchants * scale.refunds))
        if number == 1 and store_dies is not None:
            tell("kill -9 of the store's server; it is started again")
            crew.strikes.append(Strike("store", time.monotonic()))
            store_dies()
        elif number % 2:
            name = f"node-{dice.randint(1, scale.nodes)}"
            tell(f"kill -9 of {name}; another one takes its place")
            crew.kill(name)
            crew.node(name)
        else:
            name = f"worker-{dice.randint(1, scale.workers)}"
            tell(f"kill -9 of {name}; another one takes its place")
            crew.kill(name)
            crew.worker(name)


def _has(ledger: Ledger, count: float) -> bool:
    """Return True if the ledger has at least ``count`` entries."""
    return len(ledger.entries()) >= count


def _until(true: Callable[[], bool]) -> None:
    """Wait until ``true`` returns True, for at most ``END_S`` seconds; `check` reports failures."""
    end = time.monotonic() + END_S
    while not true() and time.monotonic() < end:
        time.sleep(0.02)


def _waiting(queue: Queue) -> int:
    """Return the number of jobs that aren't done; 1 if the store doesn't answer."""
    try:
        stands = queue.stats()
    except StoreUnavailable:
        return 1
    return stands.waiting + stands.taken


def _left(queue: Queue) -> str:
    """Return a text about the jobs that are left in the queue; empty if there are none."""
    stands = queue.stats()
    if stands.waiting or stands.taken or stands.dead:
        return f"{stands.waiting} waiting, {stands.taken} taken, {stands.dead} dead letters"
    return ""
