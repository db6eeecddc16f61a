"""Who went in by which ``with`` statement: so that leaving gives back exactly that hold.

A lock object may be inside several ``with`` statements at once, of several threads or tasks, and
each must give back its own hold: releasing another's would be the very trap that this library is
against. Entries are found by the thread or task that entered; if the body was moved elsewhere (a
generator that another thread goes on with), the latest entry is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from ..errors import LockLost, NotHeld, StoreUnavailable
from .model import Loss
from .ports import Guard, Runtime


class Entry:
    """One ``with`` statement that is inside; ``level``: how often its hold was entered then."""

    __slots__ = ("flow", "guard", "hold", "leaving", "level", "mark")

    def __init__(self, mark: object, flow: Hashable, hold: Any, guard: Guard | None) -> None:
        self.mark = mark
        self.flow = flow
        self.hold = hold
        self.guard = guard
        self.level: int = hold._count
        #: It is on its way out.
        self.leaving = False


class Named(Protocol):
    """What is left: it says its name for an error."""

    def _what(self) -> str:
        """What it is, in an error."""
        ...


class Door(list[Entry]):
    """The entries of one lock object.

    An entry is taken out only when its hold is given back, so that whoever is interrupted on the
    way (Ctrl-C may strike between any two lines) can still find it, and finish.
    """

    __slots__ = ("_runtime",)

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime

    def enter(self, mark: object, hold: Any, guard: Guard | None = None) -> None:
        """Note that the current thread or task is inside with this hold."""
        self.append(Entry(mark, self._runtime.flow(), hold, guard))

    def forget(self, mark: object) -> None:
        """It did not come in after all; its hold is given back by another way."""
        for one in list(self):
            if one.mark is mark:
                self._forget(one)

    async def undo(self, mark: object) -> None:
        """An exception came between the grant and the body: give the hold back."""
        for one in list(self):
            if one.mark is mark:
                try:
                    await one.hold._release()
                finally:
                    self._forget(one)

    async def leave(self, what: Named, failure: BaseException | None) -> None:
        """Release what this entry holds; raise ``LockLost`` if it was lost meanwhile.

        The body's own exception is never hidden: the loss is added to it as a note. Only the
        cancellation that we asked for, because of the loss, becomes ``LockLost``.
        """
        one: Entry | None = None
        try:
            one = self._find()
            if one is None:
                raise NotHeld(f"{what._what()} is left, but was not entered")
            one.leaving = True
            try:
                kept = await one.hold._release()
            except StoreUnavailable:
                if not _excused(one.hold, failure):
                    raise
                kept = False
            if not kept or one.guard is not None:
                _tell(one.hold, what._what, failure, one.guard, kept)
        except Exception:
            raise
        except BaseException:
            one = one or self._find()
            if one is not None:
                one.hold._cut(one.level)
            raise
        finally:
            if one is not None:
                self._forget(one)

    def _find(self) -> Entry | None:
        """The entry of the current thread or task that was the last to come in."""
        entries = [one for one in self if not one.leaving]
        if len(entries) < 2:
            return entries[0] if entries else None
        flow = self._runtime.flow()
        return next((one for one in reversed(entries) if one.flow == flow), entries[-1])

    def _forget(self, one: Entry) -> None:
        if one in self:
            self.remove(one)


async def give_back(hold: Any, what: Callable[[], str], failure: BaseException | None) -> None:
    """Release a hold whose body is over; see ``Door.leave``."""
    try:
        kept = await hold._release()
    except StoreUnavailable:
        if not _excused(hold, failure):
            raise
        kept = False
    _tell(hold, what, failure, None, kept)


def _excused(hold: Any, failure: BaseException | None) -> bool:
    """A release that isn't known to have come through: is there worse to tell?"""
    return failure is not None or hold.lost is not None


def _tell(
    hold: Any,
    what: Callable[[], str],
    failure: BaseException | None,
    guard: Guard | None,
    kept: bool,
) -> None:
    """Say so if the hold was lost while the body ran."""
    ours = guard is not None and guard.caused(failure)
    reason = hold.lost
    if kept or reason is None:
        return
    story = _story(what(), reason)
    if failure is None or ours:
        raise LockLost(story, reason) from failure
    failure.add_note(story)


def _story(what: str, reason: Loss) -> str:
    return (
        f"{what} was lost before its body ended: {reason}. Another may hold it since; what the "
        "body did last may have to be undone (fenced writes were refused)"
    )
