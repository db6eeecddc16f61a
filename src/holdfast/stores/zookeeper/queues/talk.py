"""Access of the queue verbs to the ensemble: requests, the leader's clock, folders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.queue.model import TooLarge
from ..port import Port, refused
from ..requests import Create, Made, Multi, No, Put, Request, Stat
from .clock import Clock
from .names import FOLDERS, Place, place_of
from .space import Space

#: What a server takes in one request, by its default of ``jute.maxbuffer``, and some room.
REQUEST_BYTES_MAX = 0xFFFFF - 4096


class Talk:
    """What all verbs have in common."""

    def __init__(self, port: Port, root: str) -> None:
        self.port = port
        self.root = root
        self.clock = Clock()
        self.spaces: dict[str, Space] = {}

    @property
    def label(self) -> str:
        """The store, in messages."""
        return self.port.label

    def space(self, queue: str) -> Space:
        """What is known of this queue."""
        space = self.spaces.get(queue)
        if space is None:
            space = self.spaces.setdefault(queue, Space(queue, place_of(self.root, queue)))
        return space

    async def ask(self, requests: Sequence[Request], until: float) -> list[Any]:
        """Send them at once; what stats the answers to writes have is learnt from."""
        sent = self.port.now()
        answers = await self.port.ask(requests, until)
        stamp = max(map(_stamp, answers), default=0.0)
        if stamp:
            self.clock.learn(stamp, sent, self.port.now())
        return answers

    async def tell_time(self, space: Space, until: float) -> None:
        """See to it that the leader's clock is known; it costs a write if it has been silent."""
        if self.clock.old(self.port.now()):
            await self.ask([Multi((Put(space.place.at("pulse"), b""),))], until)

    async def make(self, place: Place, until: float) -> None:
        """Make the folders of a queue, and all that they are in."""
        parts = place.base.strip("/").split("/")
        above = ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
        paths = [*above, *(place.at(one) for one in FOLDERS)]
        answers = await self.port.ask([Create(path) for path in paths], until)
        for path, answer in zip(paths, answers, strict=True):
            if not isinstance(answer, Made) and answer is not No.ROOM and path not in above:
                why = No.RIGHT if No.RIGHT in answers else answer
                raise refused(why, f"create {path}", self.label)


def _stamp(answer: Any) -> float:
    """The time of a write that is answered with a stat, in a transaction."""
    if not isinstance(answer, list):
        return 0.0
    return max((one.changed for one in answer if isinstance(one, Stat)), default=0.0)


def why_not(answers: Any) -> list[Any]:
    """The refusals of a transaction's parts; empty if it was carried out."""
    if not isinstance(answers, list):
        return [answers]
    return answers if any(isinstance(one, No) for one in answers) else []


def check_rights(answers: list[Any], what: str, label: str) -> None:
    """Raise if it was refused for want of rights."""
    if No.RIGHT in answers:
        raise refused(No.RIGHT, what, label)


def too_large(size: int, jobs: int, label: str) -> TooLarge:
    """The error for a request that no server takes."""
    fewer = max(1, jobs * REQUEST_BYTES_MAX // size - 1)
    return TooLarge(
        f"{jobs} jobs of together {size} bytes are too much for one request to {label}, which "
        f"takes {REQUEST_BYTES_MAX} (jute.maxbuffer): put at most {fewer} of them at once, or put "
        "the data elsewhere, and its key into the queue"
    )
