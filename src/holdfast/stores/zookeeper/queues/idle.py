"""Waiters for a job: a node each; a client that has a job for one deletes its node.

So a job that is due wakes one, however many wait: each watches its own node alone. A wake-up that
is lost, as its waiter had just gone, costs the others the second after which they ask again.
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
    """Those of this process who wait, and those of all who are to be woken."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._bells: dict[str, Bell] = {}
        #: Takes that have a node, as far as we know; and those whose node we watch.
        self._nodes: dict[str, str] = {}
        self._standing: set[str] = set()

    def standing(self, take: Take) -> bool:
        """Has it a node, so that it will be woken?"""
        return take.id in self._standing

    def stand(self, space: Space, take: Take) -> list[Request]:
        """What makes its node, and watches it."""
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
        """Was its node made? If it was woken before it was watched, it asks again at once, because
        until then nobody can wake it."""
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
        """What removes its node, if it has one."""
        path = self._nodes.get(take.id)
        return [] if path is None else [Delete(path)]

    def unlisten(self, take: Take) -> None:
        """It waits no more."""
        self._bells.pop(take.id, None)
        self._standing.discard(take.id)
        for request in self.leave(take):
            self._talk.port.post(request, _unheeded)
        self._nodes.pop(take.id, None)  # last, as an interrupt may come before any of it

    def look(self, space: Space) -> Request:
        """What asks who waits."""
        return Children(space.place.at("idle"))

    def poke(self, space: Space, waiting: Any, jobs: int) -> None:
        """Wake one of the waiters per job; those that others have woken are passed over."""
        if not isinstance(waiting, list) or not waiting or jobs <= 0:
            return
        space.pokes += 1
        start = space.pokes % len(waiting)
        order = sorted(waiting)[start:] + sorted(waiting)[:start]
        # Nothing is sent from the answers: the driver's thread may not wait for itself.
        for node, _ in zip(order, range(jobs), strict=False):
            self._talk.port.post(Delete(space.place.at("idle", node)), _unheeded)

    def forget(self) -> None:
        """The client is closed, or we are the child of a fork."""
        self._bells = {}
        self._nodes = {}
        self._standing = set()


def _unheeded(answer: Any) -> None:
    """Whether it was there doesn't matter."""
