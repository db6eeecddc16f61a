"""Takes that wait for a job: each has a node, which another client deletes to wake the take.

A client that makes a job due deletes the node of one take. A take watches only its own node, so one
waiter wakes, however many wait. If that waiter has just gone, the wake-up is lost; the other
waiters ask again after at most a second.
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
        #: The path of the node of each waiting take, by its id.
        self._nodes: dict[str, str] = {}
        #: The ids of the takes with a watch on their node.
        self._standing: set[str] = set()

    def standing(self, take: Take) -> bool:
        """True if the take's node is watched, so that a wake-up reaches the take."""
        return take.id in self._standing

    def stand(self, space: Space, take: Take) -> list[Request]:
        """Return the requests that create the take's node and watch it."""
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
        """Return True if the take's node was made, by the answers to the requests of `stand`.

        If the node was deleted before the watch was set, this method wakes the take immediately,
        because without a node no client can wake the take."""
        made = answers[0] is not No.NODE
        if isinstance(answers[1], No):
            self._standing.discard(take.id)
            if made and (bell := self._bells.get(take.id)) is not None:
                bell.set()
        return made

    async def wait(self, take: Take, seconds: float) -> bool:
        """Sleep until the take is woken (True) or until the time-out has expired (False)."""
        bell = self._bells.get(take.id)
        if bell is None:
            bell = self._bells[take.id] = self._talk.port.bell()
        return await bell.wait(seconds)

    def leave(self, take: Take) -> list[Request]:
        """Return the request that removes the take's node, if the take has one."""
        path = self._nodes.get(take.id)
        return [] if path is None else [Delete(path)]

    def unlisten(self, take: Take) -> None:
        """Stop waiting by this take, and remove its node."""
        self._bells.pop(take.id, None)
        self._standing.discard(take.id)
        for request in self.leave(take):
            self._talk.port.post(request, _unheeded)
        self._nodes.pop(take.id, None)  # last, so that no interrupt leaves an unknown node

    def look(self, space: Space) -> Request:
        """Return the request that lists the waiting takes."""
        return Children(space.place.at("idle"))

    def poke(self, space: Space, waiting: Any, jobs: int) -> None:
        """Wake one waiter per job; each call starts with a different waiter."""
        if not isinstance(waiting, list) or not waiting or jobs <= 0:
            return
        space.pokes += 1
        start = space.pokes % len(waiting)
        order = sorted(waiting)[start:] + sorted(waiting)[:start]
        # The callback sends nothing: it runs on the driver's thread, which can't wait for itself.
        for node, _ in zip(order, range(jobs), strict=False):
            self._talk.port.post(Delete(space.place.at("idle", node)), _unheeded)

    def forget(self) -> None:
        """Forget all waiting takes, when the client is closed or in the child of a fork."""
        self._bells = {}
        self._nodes = {}
        self._standing = set()


def _unheeded(answer: Any) -> None:
    """Ignore the answer: the node may be gone already."""
