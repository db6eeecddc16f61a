"""Ways to take a lock, in the same clothes, and the arenas in which they compete.

A grip is what one process has of one lock. Peers are imported when their grip is opened, so that
one which isn't installed is missing from the tables, with a word about it, and nothing else.
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

#: What a contender can take part in.
Part = Literal["uncontended", "handoff", "contention", "timeouts"]
ALL: frozenset[Part] = frozenset({"uncontended", "handoff", "contention", "timeouts"})


Face = Literal["threads", "asyncio"]


class Grip(Protocol):
    """One process's way to one lock. Blocking ones have it too: their coroutines don't suspend."""

    async def take(self) -> object:
        """Wait until it is held."""
        ...

    async def within(self, seconds: float) -> bool:
        """Try for so many seconds; is it held?"""
        ...

    async def free(self) -> object:
        """Give it back."""
        ...

    async def close(self) -> None:
        """End what was opened for it."""
        ...

    def pair(self) -> Callable[[], object]:
        """What takes and frees it once, as a user would write it; a coroutine function if the
        contender's face is asyncio."""
        ...


class Shared(Protocol):
    """What all threads or tasks of a process share: usually a client."""

    def use(self, name: str, inside: Callable[[], object] = list) -> Callable[[], Any]:
        """What takes this name, does what is to be done inside, and frees it, as a user would
        write it; a coroutine function if the contender's face is asyncio."""
        ...

    async def close(self) -> object:
        """End what was opened for it."""
        ...


@dataclass(frozen=True)
class Contender:
    """A way to take a lock. ``open`` gives this process's grip on the one lock of a folder."""

    label: str
    open: Callable[[Path], Grip]
    face: Face = "threads"
    package: str = ""
    parts: frozenset[Part] = ALL
    #: The longest that it sleeps between two looks; 0 if it is woken.
    period_s: float = 0.0
    #: Its name where packages are had, if that isn't the name that is imported.
    project: str = ""
    #: What many threads or tasks use together, if that is to be measured.
    shared: Callable[[Path], Shared] | None = None
    #: The same, where each name stands for ten that are held together.
    several: Callable[[Path], Shared] | None = None

    @property
    def missing(self) -> str:
        """Why it can't take part; empty if it can."""
        if self.package and importlib.util.find_spec(self.package) is None:
            return f"{self.project or self.package} is not installed (pip install --group bench)"
        return ""

    def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine over its grip: in an event loop, or to its end in one step."""
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
        """Let time pass, as is usual in its face."""
        if self.face == "asyncio":
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - a face that blocks


@dataclass(frozen=True)
class Arena:
    """A store, who competes there, and what we want to reach, by the key of the panel.

    ``around`` is entered for the whole run: it starts what the store needs and yields in words
    what that is.
    """

    name: str
    title: str
    contenders: Sequence[Contender]
    #: The label that ratios refer to, unless ``references`` names another one for a panel.
    reference: str
    #: The URL of the store for a folder; our own suites open clients of it.
    url: Callable[[Path], str]
    #: What is started as a command: label -> arguments for the interpreter, or a whole command.
    commands: Callable[[Path], Mapping[str, Sequence[str]]]
    around: Callable[[], contextlib.AbstractContextManager[str]]
    #: The suites that make sense here.
    suites: Collection[str]
    targets: Mapping[str, Sequence[Target]] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)
    #: Who queues jobs there.
    feeders: Sequence[Feeder] = ()
    #: Who guards values there.
    shielders: Sequence[Shielder] = ()
    #: So many processes contend for one name.
    crowds: Sequence[int] = (2, 8, 32)
    #: Connections to the server that are open now, for the suites that count them.
    connections: Callable[[], int] | None = None

    def reference_of(self, key: str) -> str:
        """The label that the ratios of this panel refer to."""
        return self.references.get(key, self.reference)

    def entered(self, part: Part) -> tuple[list[Contender], dict[str, str]]:
        """Who takes part in this, and who can't, with the reason."""
        of = [one for one in self.contenders if part in one.parts]
        absent = {one.label: one.missing for one in of if one.missing}
        return [one for one in of if not one.missing], absent


def peer(name: str) -> ModuleType:
    """Import a peer, now that it is wanted."""
    return importlib.import_module(name)
