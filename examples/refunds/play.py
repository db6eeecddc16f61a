"""All of it together: customers, nodes, workers, the bank, and somebody who kills them."""

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

#: Nothing is waited for longer than so many seconds.
END_S = 60.0


class Scale(NamedTuple):
    """How big a play is. ``strikes``: so many processes are killed while it goes on."""

    nodes: int = 3
    workers: int = 3
    merchants: int = 6
    refunds: int = 15
    strikes: int = 8
    seed: int = 0


class Seen(NamedTuple):
    """What was seen of a play, for the check and the picture. All times are of one clock.

    ``left``: what stands in the queue at the end. ``told``: what customers were told, by refund.
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
    """Play it through in this folder, and see what came of it.

    ``known`` says where the store is; bank and ledger are the play's own. ``store_dies``: kills the
    store's server and starts it again; once, in the middle.
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
    """As refunds are settled: kill a worker, then a node, then a worker..."""
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
    """Has the ledger so many entries?"""
    return len(ledger.entries()) >= count


def _until(true: Callable[[], bool]) -> None:
    """Wait until it is true, but not for ever: what is wrong is for the check to say."""
    end = time.monotonic() + END_S
    while not true() and time.monotonic() < end:
        time.sleep(0.02)


def _waiting(queue: Queue) -> int:
    """How many jobs aren't done; 1 if the store doesn't say."""
    try:
        stands = queue.stats()
    except StoreUnavailable:
        return 1
    return stands.waiting + stands.taken


def _left(queue: Queue) -> str:
    """What is left in the queue, in words."""
    stands = queue.stats()
    if stands.waiting or stands.taken or stands.dead:
        return f"{stands.waiting} waiting, {stands.taken} taken, {stands.dead} dead letters"
    return ""
