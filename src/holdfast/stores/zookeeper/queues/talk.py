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

#: Maximum bytes of one request by the default of ``jute.maxbuffer``, less some reserve.
REQUEST_BYTES_MAX = 0xFFFFF - 4096


class Talk:
    """Shared by all verbs: the port, the leader's clock, and the view of each queue."""

    def __init__(self, port: Port, root: str) -> None:
        self.port = port
        self.root = root
        self.clock = Clock()
        self.spaces: dict[str, Space] = {}

    @property
    def label(self) -> str:
        """The store's name in messages."""
        return self.port.label

    def space(self, queue: str) -> Space:
        """Return the view of this queue; make one if there is none."""
        space = self.spaces.get(queue)
        if space is None:
            space = self.spaces.setdefault(queue, Space(queue, place_of(self.root, queue)))
        return space

    async def ask(self, requests: Sequence[Request], until: float) -> list[Any]:
        """Send all requests together; learn the leader's clock from the answers of transactions."""
        sent = self.port.now()
        answers = await self.port.ask(requests, until)
        stamp = max(map(_stamp, answers), default=0.0)
        if stamp:
            self.clock.learn(stamp, sent, self.port.now())
        return answers

    async def tell_time(self, space: Space, until: float) -> None:
        """Make sure that the leader's clock is known; if the estimate is old, send a write."""
        if self.clock.old(self.port.now()):
            await self.ask([Multi((Put(space.place.at("pulse"), b""),))], until)

    async def make(self, place: Place, until: float) -> None:
        """Make the folders of a queue, and all folders above them."""
        parts = place.base.strip("/").split("/")
        above = ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
        paths = [*above, *(place.at(one) for one in FOLDERS)]
        answers = await self.port.ask([Create(path) for path in paths], until)
        for path, answer in zip(paths, answers, strict=True):
            if not isinstance(answer, Made) and answer is not No.ROOM and path not in above:
                why = No.RIGHT if No.RIGHT in answers else answer
                raise refused(why, f"create {path}", self.label)


def _stamp(answer: Any) -> float:
    """Return the latest time in a transaction's answer; 0.0 if it has no `Stat`."""
    if not isinstance(answer, list):
        return 0.0
    return max((one.changed for one in answer if isinstance(one, Stat)), default=0.0)


def why_not(answers: Any) -> list[Any]:
    """Return the answers to a refused transaction's parts; empty if all was carried out."""
    if not isinstance(answers, list):
        return [answers]
    return answers if any(isinstance(one, No) for one in answers) else []


def check_rights(answers: list[Any], what: str, label: str) -> None:
    """Raise if a request was refused because of missing rights."""
    if No.RIGHT in answers:
        raise refused(No.RIGHT, what, label)


def too_large(size: int, jobs: int, label: str) -> TooLarge:
    """Return the error for a request that is too large for any server."""
    fewer = max(1, jobs * REQUEST_BYTES_MAX // size - 1)
    return TooLarge(
        f"{jobs} jobs of together {size} bytes are too much for one request to {label}, which "
        f"takes {REQUEST_BYTES_MAX} (jute.maxbuffer): put at most {fewer} of them at once, or put "
        "the data elsewhere, and its key into the queue"
    )
