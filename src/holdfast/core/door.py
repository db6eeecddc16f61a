"""Who went in by which ``with`` statement: so that leaving gives back exactly that hold.

A lock object may be inside several ``with`` statements at once, of several threads or tasks, and
each must give back its own hold: releasing another's would be the very trap that this library is
against. Entries are found by the thread or task that entered; if the body was moved elsewhere (a
generator that another thread goes on with), the latest entry is taken.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from ..errors import LockLost, NotHeld, StoreUnavailable
from .model import Loss
from .ports import Guard, Runtime


class Entry(NamedTuple):
    """One ``with`` statement that is inside."""

    mark: object
    flow: Hashable
    hold: Any
    guard: Guard | None


class Door:
    """The entries of one lock object."""

    __slots__ = ("_entries", "_runtime")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._entries: list[Entry] = []

    async def enter(self, mark: object, hold: Any, guard: Guard | None = None) -> None:
        """Note that the current thread or task is inside with this hold."""
        try:
            self._entries.append(Entry(mark, self._runtime.flow(), hold, guard))
        except BaseException:
            await hold._release()
            raise

    async def undo(self, mark: object) -> None:
        """An exception came between the grant and the body: give the hold back."""
        for one in list(self._entries):
            if one.mark is mark:
                self._entries.remove(one)
                await one.hold._release()

    async def leave(self, what: str, failure: BaseException | None) -> None:
        """Release what this entry holds; raise ``LockLost`` if it was lost meanwhile.

        The body's own exception is never hidden: the loss is added to it as a note. Only the
        cancellation that we asked for, because of the loss, becomes ``LockLost``.
        """
        one = self._leaving(what)
        await give_back(one.hold, what, failure, one.guard)

    def _leaving(self, what: str) -> Entry:
        flow = self._runtime.flow()
        entries = self._entries
        one: Entry
        for one in reversed(entries):
            if one.flow == flow:
                entries.remove(one)
                return one
        if not entries:
            raise NotHeld(f"{what} is left, but was not entered")
        return entries.pop()


async def give_back(
    hold: Any, what: str, failure: BaseException | None, guard: Guard | None = None
) -> None:
    """Release a hold whose body is over; see ``Door.leave``."""
    try:
        kept = await hold._release()
    except StoreUnavailable:
        if failure is None and hold.lost is None:
            raise
        kept = False
    ours = guard is not None and guard.caused(failure)
    reason = hold.lost
    if kept or reason is None:
        return
    story = _story(what, reason)
    if failure is None or ours:
        raise LockLost(story, reason) from failure
    failure.add_note(story)


def _story(what: str, reason: Loss) -> str:
    return (
        f"{what} was lost before its body ended: {reason}. Another may hold it since; what the "
        "body did last may have to be undone (fenced writes were refused)"
    )
