"""Ways to take a lock, with the same interface, and the arenas in which they compete.

A *grip* is the object by which one process uses one lock. A peer is imported when its grip is
opened. So a peer that isn't installed is only missing from the tables, and the report names it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Protocol, TypeVar

from .feeds import Feeder
from .model import Target
from .shields import Shielder

T = TypeVar("T")

#: The suites in which a contender can take part.
Part = Literal["uncontended", "handoff", "contention", "timeouts"]
ALL: frozenset[Part] = frozenset({"uncontended", "handoff", "contention", "timeouts"})


Face = Literal["threads", "asyncio"]


class Grip(Protocol):
    """The object by which one process uses one lock.

    The coroutines of a blocking contender never suspend."""

    async def take(self) -> object:
        """Take the lock; wait for it without a time limit."""
        ...

    async def within(self, seconds: float) -> bool:
        """Try to take the lock for at most ``seconds``; return True if it is held."""
        ...

    async def free(self) -> object:
        """Release the lock."""
        ...

    async def close(self) -> None:
        """Close the client and its connections."""
        ...

    def pair(self) -> Callable[[], object]:
        """Return a function that takes and releases the lock once, in the library's usual way.

        It is a coroutine function if the contender's face is asyncio."""
        ...


class Shared(Protocol):
    """The object that all threads or tasks of a process share: usually a client."""

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        """Return a function that takes a name, calls ``inside``, and releases the name.

        It is a coroutine function if the contender's face is asyncio."""
        ...

    async def close(self) -> object:
        """Close the client and its connections."""
        ...


@dataclass(frozen=True)
class Contender:
    """A way to take a lock. ``open`` returns a grip on the one lock that belongs to a folder."""

    label: str
    open: Callable[[Path], Grip]
    face: Face = "threads"
    package: str = ""
    parts: frozenset[Part] = ALL
    #: Maximum seconds between two polls of a waiter; 0 if waiters are woken.
    period_s: float = 0.0
    #: The name of the package in the registry, if it differs from the name of the import.
    project: str = ""
    #: Opens the object that threads or tasks share; None: that isn't measured.
    shared: Callable[[Path], Shared] | None = None
    #: Opens such an object that takes ten locks together for each name.
    several: Callable[[Path], Shared] | None = None

    @property
    def missing(self) -> str:
        """The reason why the contender can't take part; empty if it can."""
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"{self.project or self.package} is not installed (pip install --group bench)"
        return ""

    def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that uses the grip: in an event loop, or, if it blocks, in one step."""
        if self.face == "asyncio":
            return asyncio.run(work)
        try:
            work.send(None)
        except StopIteration as done:
            value: T = done.value
            return value
        work.close()
        raise RuntimeError(f"{self.label}: a blocking grip suspended")

    async def pause(self, seconds: float) -> None:
        """Sleep, in the way of the contender's face."""
        if self.face == "asyncio":
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - a face that blocks


@dataclass(frozen=True)
class Arena:
    """A store with its contenders, and our targets by the key of the panel.

    ``around`` is a context for the whole run: it starts the server, if the store needs one, and
    yields a text about it.
    """

    name: str
    title: str
    contenders: Sequence[Contender]
    #: The label that ratios refer to, unless ``references`` names another one for a panel.
    reference: str
    #: Returns the URL of the store for a folder; some suites open holdfast clients with it.
    url: Callable[[Path], str]
    #: The commands to start: label -> arguments for the interpreter, or a whole command.
    commands: Callable[[Path], Mapping[str, Sequence[str]]]
    around: Callable[[], contextlib.AbstractContextManager[str]]
    #: The suites that are measured in this arena.
    suites: Collection[str]
    targets: Mapping[str, Sequence[Target]] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)
    #: The contenders that queue jobs.
    feeders: Sequence[Feeder] = ()
    #: The contenders that guard values.
    shielders: Sequence[Shielder] = ()
    #: The numbers of processes that contend for one name, one panel for each.
    crowds: Sequence[int] = (2, 8, 32)
    #: Returns the number of open connections of the server, for the suites that count them.
    connections: Callable[[], int] | None = None

    def reference_of(self, key: str) -> str:
        """Return the label that the ratios of this panel refer to."""
        return self.references.get(key, self.reference)

    def entered(self, part: Part) -> tuple[list[Contender], dict[str, str]]:
        """Return the contenders of a suite; and the missing ones, with the reason of each."""
        of = [one for one in self.contenders if part in one.parts]
        absent = {one.label: one.missing for one in of if one.missing}
        return [one for one in of if not one.missing], absent


def peer(name: str) -> ModuleType:
    """Import the module of a peer."""
    return importlib.import_module(name)
