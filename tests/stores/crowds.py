"""Threads that act at once or wait in line, and processes that lock one name again and again: the
turns of each, their shares and overlaps.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from holdfast import Client
from holdfast.testing.faults import Subject
from tests.servers.process import until

#: One hold of the name: its fence, its beginning and its end.
Turn = Sequence[float]


def turns_of(count: int, act: str, *args: object) -> list[list[Turn]]:
    """The turns of each of ``count`` processes that begin together."""
    return turns_at([args] * count, act)


def turns_at(places: Sequence[tuple[object, ...]], act: str) -> list[list[Turn]]:
    """The turns of processes that begin together, one for each of these tuples of arguments."""
    crew = [Subject(act, *args) for args in places]
    try:
        for one in crew:
            assert one.hear(60) == "ready"
        for one in crew:
            one.say("go")
        found = [one.hear(90) for one in crew]
        for one in crew:
            one.end()
    finally:
        for one in crew:
            one.__exit__()
    return found


def shares(found: Sequence[Sequence[Turn]]) -> list[int]:
    """The number of turns that each process began while all processes were at work.

    A process that starts a moment later continues alone at the end, and much faster.
    """
    begins = [[turn[1] for turn in mine] for mine in found]
    first, last = max(map(min, begins)), min(map(max, begins))
    return [sum(first <= begun <= last for begun in mine) for mine in begins]


def overlaps(found: Sequence[Sequence[Turn]]) -> list[tuple[Turn, Turn]]:
    """Pairs of turns that overlap, or whose fences do not rise."""
    turns = sorted(turn for mine in found for turn in mine)
    return [
        (late, soon)
        for soon, late in itertools.pairwise(turns)
        if late[1] < soon[2] or late[0] <= soon[0]
    ]


def at_once(crew: int, act: Callable[[int], Any]) -> list[Any]:
    """The results of ``crew`` threads that call ``act`` at the same moment."""
    gate = threading.Barrier(crew)

    def work(number: int) -> Any:
        gate.wait(20)
        return act(number)

    with ThreadPoolExecutor(crew) as pool:
        return list(pool.map(work, range(crew)))


@contextmanager
def waiting(client: Client, name: str) -> Iterator[threading.Event]:
    """Let a thread wait for the name; yields an event that is set when it holds the name."""
    served = threading.Event()

    def wait() -> None:
        with client.lock(name, timeout=60):
            served.set()

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: client.inspect(name, exact=True)[0].waiters, "a client waits")
    yield served
    thread.join(60)
    assert served.is_set()
