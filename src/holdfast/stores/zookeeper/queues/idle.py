"""Takes that wait for a job: each has a node, and a client with a due job deletes one of them.

So a due job wakes one of them, however many wait: each watches only its own node. If the woken
waiter has just gone, the wake-up is lost: then the others ask again after at most a second.
"""

from __future__ import annotations

from typing import Any

from ....core.queue.model import Take
from ..names import digest
from ..port import Bell
from ..requests import Children, Create, Delete, Get, No, Request
from .space import Space
from .talk import Talk


class Idle:
    """The waiting takes of this process; and wake-ups for waiting takes of all processes."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._bells: dict[str, Bell] = {}
        #: The node of each take that has one, as far as we know; and the takes with a watch.
        self._nodes: dict[str, str] = {}
        self._standing: set[str] = set()

    def standing(self, take: Take) -> bool:
        """True if its node is watched, so that a wake-up reaches it."""
        return take.id in self._standing

    def stand(self, space: Space, take: Take) -> list[Request]:
        """Return the requests that create its node and watch it."""
        bell = self._bells.get(take.id)
        if bell is None:
            bell = self._bells[take.id] = self._talk.port.bell()
        path = space.place.at("idle", digest(take.id))
        self._nodes[take.id] = path
        self._standing.add(take.id)
        ring = bell.set

        def heard(gone: bool) -> None:
            self._standing.discard(take.id)
            if gone:
                self._nodes.pop(take.id, None)
            ring()

        return [Create(path, take.owner.encode(), ephemeral=True), Get(path, heard)]

    def stood(self, take: Take, answers: list[Any]) -> bool:
        """Return whether its node was made.

        If it was deleted before the watch was set, the take asks again at once: without a node no
        client can wake it."""
        made = answers[0] is not No.NODE
        if isinstance(answers[1], No):
            self._standing.discard(take.id)
            if made and (bell := self._bells.get(take.id)) is not None:
                bell.set()
        return made

    async def wait(self, take: Take, seconds: float) -> bool:
        """Sleep until it is woken, or until the time-out has expired."""
        bell = self._bells.get(take.id)
        if bell is None:
            bell = self._bells[take.id] = self._talk.port.bell()
        return await bell.wait(seconds)

    def leave(self, take: Take) -> list[Request]:
        """Return the request that removes its node, if it has one."""
        path = self._nodes.get(take.id)
        return [] if path is None else [Delete(path)]

    def unlisten(self, take: Take) -> None:
        """Stop waiting, and remove its node."""
        self._bells.pop(take.id, None)
        self._standing.discard(take.id)
        for request in self.leave(take):
            self._talk.port.post(request, _unheeded)
        self._nodes.pop(take.id, None)  # last: an interrupt may come before any of these lines

    def look(self, space: Space) -> Request:
        """Return the request that lists the waiting takes."""
        return Children(space.place.at("idle"))

    def poke(self, space: Space, waiting: Any, jobs: int) -> None:
        """Wake one waiter per job, starting from a different one each time."""
        if not isinstance(waiting, list) or not waiting or jobs <= 0:
            return
        space.pokes += 1
        start = space.pokes % len(waiting)
        order = sorted(waiting)[start:] + sorted(waiting)[:start]
        # The answers send nothing more: the driver's thread may not wait for itself.
        for node, _ in zip(order, range(jobs), strict=False):
            self._talk.port.post(Delete(space.place.at("idle", node)), _unheeded)

    def forget(self) -> None:
        """Forget all, when the client is closed or in the child of a fork."""
        self._bells = {}
        self._nodes = {}
        self._standing = set()


def _unheeded(answer: Any) -> None:
    """Ignore the answer: the node may have gone before."""
