"""The ``with`` statements that entered a lock: each releases exactly its own hold.

Several threads or tasks can be inside a ``with`` over one lock object at the same time. Each
statement must release its own hold: releasing another caller's hold is the fault that this library
prevents. An entry is found by its statement (``place.py``), or by the thread or task that entered.
If neither identifies the entry, a lost hold is released, or the only hold whose statement has
certainly ended. Otherwise nothing is released, because each entry can belong to another caller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from types import FrameType
from typing import Any, Protocol

from ..errors import LockLost, NotHeld, StoreUnavailable
from .model import Loss
from .place import Place
from .ports import CancelScope, Runtime

log = logging.getLogger("holdfast")


class Entry(Place):
    """One ``with`` statement: its place, and its hold while its body runs.

    The entry is made before the wait for the hold, because only then the frame of the statement is
    available.
    """

    __slots__ = ("flow", "hold", "leaving", "level", "scope")

    #: The thread or task that entered.
    flow: Hashable
    hold: Any
    #: The entry count of the hold when this statement entered.
    level: int
    #: Cancels the body if the hold is lost.
    scope: CancelScope | None
    #: True while the statement is being left.
    leaving: bool


class Named(Protocol):
    """The lock, or the group of locks, that a statement leaves; it has a name for errors."""

    def _what(self) -> str:
        """Return the name for an error."""
        ...

    def _elsewhere(self, failure: BaseException | None, frame: FrameType) -> bool:
        """Return True if this statement entered the lock in another event loop. That loop then
        releases the lock.
        """
        ...


class Door(list[Entry]):
    """The entries of one lock object.

    An entry is removed only when its hold is released. So if leaving is interrupted (Ctrl-C can
    come between any two lines), the handler of the interrupt can still find it, and finish.
    """

    __slots__ = ("_runtime",)

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime

    def enter(self, one: Entry, hold: Any, scope: CancelScope | None = None) -> None:
        """Note that the current thread or task has entered by this statement, with this hold."""
        one.flow, one.hold, one.scope = self._runtime.flow(), hold, scope
        one.level, one.leaving = hold._count, False
        self.append(one)

    def forget(self, one: Entry) -> None:
        """Remove an entry whose statement was left, or whose hold is released in another way."""
        try:
            self.remove(one)
        except ValueError:
            return  # it was not added, or was removed before

    async def undo(self, one: Entry) -> None:
        """Release the hold after an exception between the grant and the body."""
        if one in self:
            try:
                await one.hold._release()
            finally:
                self.forget(one)

    async def leave(self, what: Named, failure: BaseException | None, frame: FrameType) -> None:
        """Release the hold of this frame's statement; raise ``LockLost`` if that hold was lost.

        An exception of the body is never hidden: the loss is added to it as a note. Only the
        cancellation that holdfast caused, because of the loss, becomes ``LockLost``.
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
            try:  # inline, not by `give_back`: usually nothing else is needed
                kept = await one.hold._release()
            except StoreUnavailable as silence:
                kept = _silent(one.hold, what._what, silence)
            if not kept or one.scope is not None:
                _tell(one.hold, what._what, failure, one.scope, kept)
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
        """Leave the statement without awaiting anything: the renewer releases its hold."""
        one = self._alone(frame) or self._find(frame)
        if one is not None:
            one.hold._cut(one.level)
            self.forget(one)

    def entered(self, here: Place) -> Entry | None:
        """Return the entry of this very statement, if the entry may be left in another event
        loop."""
        for one in self[:]:
            if not one.leaving and one.movable() and one.same(here):
                return one
        return None

    def cut(self, one: Entry) -> None:
        """Leave an entry whose body ended in another event loop: the renewer releases the entry's
        hold."""
        if one.scope is not None:
            one.scope.caused(None)  # the loss cancels no task after this
        one.hold._cut(one.level)
        self.forget(one)

    def _alone(self, frame: FrameType) -> Entry | None:
        """Return the only entry, if this frame has entered it: the usual case."""
        if len(self) == 1:
            for one in self:
                if one.number == id(frame) and one.code is frame.f_code and not one.leaving:
                    return one
        return None

    def _find(self, frame: FrameType) -> Entry | None:
        """Return the entry that is left from this frame; None if it is unknown."""
        entries = [one for one in self[:] if not one.leaving]
        flow = self._runtime.flow()
        if len(entries) == 1 and entries[0].flow == flow:
            return entries[0]
        if not entries:
            return None
        here = Place(frame)
        ours = [one for one in entries if one.flow == flow]
        # An entry of a generator, or of a caller of this frame, isn't likely: it is left from its
        # own frame.
        likely = [one for one in ours if not one.exact() and not one.around(frame)]
        exact = [one for one in entries if one.movable() and one.same(here)]
        if exact:
            found = next((one for one in reversed(exact) if one in ours), exact[-1])
            if found.exact() or found in ours:
                return found
            # Another thread or task entered `found`. If a coroutine called `__aenter__` by hand, it
            # can have ended, and this frame can have its number. So an entry of this thread or task
            # by the same code comes first.
            return next((one for one in reversed(likely) if one.code is here.code), found)
        same = [one for one in likely if one.same(here)]
        for some in (same, likely, [one for one in ours if not one.around(frame)], ours):
            if some:
                return some[-1]
        return _left_over(entries)


def _left_over(entries: list[Entry]) -> Entry | None:
    """Return an entry of another thread or task that may be ended, or None.

    Its hold is lost, or it is the only entry whose statement has ended without leaving it.
    """
    for one in entries:
        if one.hold.lost is not None:
            return one
    over = [one for one in entries if not one.alive()]
    return over[0] if len(over) == 1 else None


def _refuse(what: Named, failure: BaseException | None, others: bool) -> None:
    """Refuse to release: no hold is known to belong to this statement."""
    text = f"{what._what()} is left, but was not entered"
    if others:
        text += (
            " by this statement, thread or task; other holds of this lock object belong to other "
            "callers. To release it in another place, keep the hold: hold = lock.acquire(), then "
            "hold.release()"
        )
    if failure is None:
        raise NotHeld(text)
    log.error("%s", text)
    failure.add_note(text)


async def give_back(hold: Any, what: Callable[[], str], failure: BaseException | None) -> None:
    """Release a hold whose body has ended; see ``Door.leave``.

    A hold that was valid when the body ended has protected the whole body. So a release that fails
    after that is only logged, and a hold that ends during the release isn't an error. The renewer
    withdraws the claim, or the claim expires.
    """
    try:
        kept = await hold._release()
    except StoreUnavailable as silence:
        kept = _silent(hold, what, silence)
    if not kept:
        _tell(hold, what, failure, None, kept)


def _silent(hold: Any, what: Callable[[], str], silence: StoreUnavailable) -> bool:
    """Log a failed release if the body was protected. Return False: the release is uncertain."""
    if hold._before is None:
        log.warning(
            "%s was held to the end of its body, but could not be released (%s). It is withdrawn "
            "when the store answers, or expires; until then others wait for it",
            what(),
            silence,
        )
    return False


def _tell(
    hold: Any,
    what: Callable[[], str],
    failure: BaseException | None,
    scope: CancelScope | None,
    kept: bool,
) -> None:
    """Report a hold that was lost while the body ran: raise ``LockLost``, or add a note."""
    ours = scope is not None and scope.caused(failure)
    reason = hold.lost
    if kept or reason is None or (hold._before is None and reason in LATE and not ours):
        return
    story = _story(what(), reason)
    if failure is None or ours:
        raise LockLost(story, reason) from failure
    failure.add_note(story)


def handed_over(hold: Any, what: Callable[[], str], failure: BaseException | None) -> None:
    """Raise ``LockLost`` for a body that ended in another event loop, if its hold was lost before.

    The loop of the hold releases it.
    """
    reason = hold.lost
    if reason is None:
        return
    story = _story(what(), reason)
    if failure is None:
        raise LockLost(story, reason)
    failure.add_note(story)


#: The losses that can come during a release, if the release takes longer than the lease.
LATE = frozenset({Loss.EXPIRED, Loss.UNREACHABLE, Loss.MAX_HOLD, Loss.CLOSED})


def _story(what: str, reason: Loss) -> str:
    return (
        f"{what} was lost before its body ended: {reason}. Another client may hold it now; undo "
        "the last side effects of the body (fenced writes were refused)"
    )
