"""The ``with`` statements that entered a lock: each releases exactly its own hold.

A lock object may be inside several ``with`` statements at once, of several threads or tasks, and
each must release its own hold: releasing another's would be the very trap that this library is
against. An entry is found by its statement (``place.py``), or by the thread or task that entered.
Where neither tells, a hold that is lost is released, or one whose statement is certainly over;
else leaving is refused, because every entry that is left may be somebody else's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from types import FrameType
from typing import Any, Protocol

from ..errors import LockLost, NotHeld, StoreUnavailable
from .model import Loss
from .place import Place
from .ports import Guard, Runtime

log = logging.getLogger("holdfast")


class Entry(Place):
    """One ``with`` statement; its place, and what it has when it is inside.

    Made by the statement before it waits for its hold, as only then its frame is at hand.
    """

    __slots__ = ("flow", "guard", "hold", "leaving", "level")

    #: The thread or task; the hold, and how often it was entered then; what cancels the body.
    flow: Hashable
    hold: Any
    level: int
    guard: Guard | None
    #: It is on its way out.
    leaving: bool


class Named(Protocol):
    """What is left: it says its name for an error."""

    def _what(self) -> str:
        """What it is, in an error."""
        ...

    def _elsewhere(self, failure: BaseException | None, frame: FrameType) -> bool:
        """Was it entered by this statement in another place, such as an event loop, so that it is
        released there?"""
        ...


class Door(list[Entry]):
    """The entries of one lock object.

    An entry is taken out only when its hold is released, so that whoever is interrupted on the
    way (Ctrl-C can come between any two lines) can still find it, and finish.
    """

    __slots__ = ("_runtime",)

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime

    def enter(self, one: Entry, hold: Any, guard: Guard | None = None) -> None:
        """Note that the current thread or task is inside with this hold, by this statement."""
        one.flow, one.hold, one.guard = self._runtime.flow(), hold, guard
        one.level, one.leaving = hold._count, False
        self.append(one)

    def forget(self, one: Entry) -> None:
        """It is inside no more; or it did not come in, and its hold is released elsewhere."""
        try:
            self.remove(one)
        except ValueError:
            return  # it was not, or was forgotten before

    async def undo(self, one: Entry) -> None:
        """An exception came between the grant and the body: release the hold."""
        if one in self:
            try:
                await one.hold._release()
            finally:
                self.forget(one)

    async def leave(self, what: Named, failure: BaseException | None, frame: FrameType) -> None:
        """Release what this entry holds; raise ``LockLost`` if it was lost meanwhile.

        The body's own exception is never hidden: the loss is added to it as a note. Only the
        cancellation that we asked for, because of the loss, becomes ``LockLost``.
        """
        one: Entry | None = None
        try:
            one = self._alone(frame)
            if one is None:
                if what._elsewhere(failure, frame):
                    return
                one = self._find(frame)
            if one is None:
                _refuse(what, failure, bool(self))
                return
            one.leaving = True
            try:  # in here, not in `give_back`: usually that is all
                kept = await one.hold._release()
            except StoreUnavailable as silence:
                kept = _silent(one.hold, what._what, silence)
            if not kept or one.guard is not None:
                _tell(one.hold, what._what, failure, one.guard, kept)
        except Exception:
            raise
        except BaseException:
            one = one or self._alone(frame) or self._find(frame)
            if one is not None:
                one.hold._cut(one.level)
            raise
        finally:
            if one is not None:
                self.forget(one)

    def abandon(self, frame: FrameType) -> None:
        """Leave without awaiting anything: the renewer releases what this entry holds."""
        one = self._alone(frame) or self._find(frame)
        if one is not None:
            one.hold._cut(one.level)
            self.forget(one)

    def entered(self, here: Place) -> Entry | None:
        """The entry of this very statement, if that may be left from elsewhere."""
        for one in self[:]:
            if not one.leaving and one.movable() and one.same(here):
                return one
        return None

    def cut(self, one: Entry) -> None:
        """Its body has ended in another place: have the renewer release what it holds."""
        if one.guard is not None:
            one.guard.caused(None)  # nobody is cancelled for it any more
        one.hold._cut(one.level)
        self.forget(one)

    def _alone(self, frame: FrameType) -> Entry | None:
        """The only entry, if it is left by the frame that entered it: usually that is all."""
        if len(self) == 1:
            for one in self:
                if one.number == id(frame) and one.code is frame.f_code and not one.leaving:
                    return one
        return None

    def _find(self, frame: FrameType) -> Entry | None:
        """The entry that is left from this frame; None if none is known to be."""
        entries = [one for one in self[:] if not one.leaving]
        flow = self._runtime.flow()
        if len(entries) == 1 and entries[0].flow == flow:
            return entries[0]
        if not entries:
            return None
        here = Place(frame)
        ours = [one for one in entries if one.flow == flow]
        # What stands in a generator, or in a function that called us, is left from there.
        likely = [one for one in ours if not one.exact() and not one.around(frame)]
        exact = [one for one in entries if one.movable() and one.same(here)]
        if exact:
            found = next((one for one in reversed(exact) if one in ours), exact[-1])
            if found.exact() or found in ours:
                return found
            # A coroutine that has entered by hand has ended, and its number may be that of another.
            return next((one for one in reversed(likely) if one.code is here.code), found)
        same = [one for one in likely if one.same(here)]
        for some in (same, likely, [one for one in ours if not one.around(frame)], ours):
            if some:
                return some[-1]
        return _left_over(entries)


def _left_over(entries: list[Entry]) -> Entry | None:
    """Of the entries of others one that may be ended: it is lost, or the only one whose statement
    has ended and can't be left any more."""
    for one in entries:
        if one.hold.lost is not None:
            return one
    over = [one for one in entries if not one.alive()]
    return over[0] if len(over) == 1 else None


def _refuse(what: Named, failure: BaseException | None, others: bool) -> None:
    """Nothing is released, because nothing that is held is known to be of this statement."""
    text = f"{what._what()} is left, but was not entered"
    if others:
        text += (
            " by this statement, thread or task; what others hold by this lock object is left to "
            "them. Where an end comes from elsewhere, keep the hold: hold = lock.acquire(), then "
            "hold.release()"
        )
    if failure is None:
        raise NotHeld(text)
    log.error("%s", text)
    failure.add_note(text)


async def give_back(hold: Any, what: Callable[[], str], failure: BaseException | None) -> None:
    """Release a hold whose body has ended; see ``Door.leave``.

    What was held when the body ended was protected to its end. That it can't be released, or has
    ended before it is, is no failure of the body: it is logged. The renewer withdraws it, or it
    expires.
    """
    try:
        kept = await hold._release()
    except StoreUnavailable as silence:
        kept = _silent(hold, what, silence)
    if not kept:
        _tell(hold, what, failure, None, kept)


def _silent(hold: Any, what: Callable[[], str], silence: StoreUnavailable) -> bool:
    """False, as it isn't known to be released; and say so if its body was protected."""
    if hold._before is None:
        log.warning(
            "%s was held to the end of its body, but could not be given back (%s). It is "
            "withdrawn when the store answers, or expires; until then others wait for it",
            what(),
            silence,
        )
    return False


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
    if kept or reason is None or (hold._before is None and reason in LATE and not ours):
        return
    story = _story(what(), reason)
    if failure is None or ours:
        raise LockLost(story, reason) from failure
    failure.add_note(story)


def handed_over(hold: Any, what: Callable[[], str], failure: BaseException | None) -> None:
    """The body of a hold has ended in another place, which has it released: raise ``LockLost``
    if it was lost before that."""
    reason = hold.lost
    if reason is None:
        return
    story = _story(what(), reason)
    if failure is None:
        raise LockLost(story, reason)
    failure.add_note(story)


#: How a hold ends while it is being released, because that takes longer than its lease.
LATE = frozenset({Loss.EXPIRED, Loss.UNREACHABLE, Loss.MAX_HOLD, Loss.CLOSED})


def _story(what: str, reason: Loss) -> str:
    return (
        f"{what} was lost before its body ended: {reason}. Another may hold it since; what the "
        "body did last may have to be undone (fenced writes were refused)"
    )
