"""The record that a worker writes of itself while it works, to be judged afterwards.

One file per worker, one line of JSON per event, written by one call before the event takes effect:
so a line that is there is whole, and a worker that is killed leaves the beginning of what it did.
Times are the boot time of the machine, which all its processes share. Every time is taken on the
careful side: a hold begins to count after acquire has returned, and ends to count before release is
called, so an overlap in the history is a real overlap.

An event has ``t`` seconds, ``p`` the worker, ``op`` and what belongs to it:

    ask      c name kind weight capacity [timeout] [place]   acquire is about to be called
    held     c fence until      it returned a hold, to be believed until then at least
    busy     c                  it returned None
    failed   c why              it raised
    look     c until            check() has passed
    shrink   c weight           it is about to be downgraded
    leaving  c                  release is about to be called
    left     c kept             it has returned
    lost     c why              the hold is known to be lost
    write    w thing fence      a guarded write is about to be asked for
    wrote    w accepted [order] it was accepted, or refused
    dead stopped continued  who     what another process did to a worker, or the machine, as the
                                    worker noticed afterwards; dead: is about to
    damaged who [since]         the state of this name in the store is about to be damaged, or was
                                at some moment since then
    forgotten who               the same for its last fence: later fences may be less
    bye                         the worker ends, with nothing under way

Of serial queues. An execution begins to count after take has returned, and ends to count before it
is settled. Jobs of a group are put by one process, numbered from 1 on; ``group`` is ``""`` for
ungrouped jobs.

    put       w jobs            these are about to be put: [group, number] each, in order
    accepted  w dropped sent    the store accepted them; the numbers of duplicates and of tries
    took      c asked group n fence attempt until
                                a take that was begun at ``asked`` delivered job n of the group
    leaving   c how             it is about to be settled: ack, retry or return
    unknown   c                 the store did not answer whether it was settled
    there     jobs              no worker is left, and the queue still contains these
    look, lost and left         as above

Of refresh guards:

    got       key version asked how
                                a read that was begun at ``asked`` gave this version of the source
    changed   key version       the invalidation after this version has returned
    computed  key version       this version was computed
    error     key why           a read or an invalidation has raised
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from typing import Any, Protocol

from ...runtime.blocking import boottime
from .. import lag


class HoldLike(Protocol):
    """The parts of a hold that the recorder uses."""

    @property
    def fence(self) -> int:
        """Its fencing token."""
        ...

    def remaining(self) -> float:
        """Return the seconds to its deadline."""
        ...

    def check(self) -> object:
        """Raise if it is lost."""
        ...


class DeliveryLike(Protocol):
    """The parts of a delivery that the recorder uses."""

    @property
    def fence(self) -> int:
        """Its fencing token."""
        ...

    @property
    def attempt(self) -> int:
        """How often the job was delivered, this time included."""
        ...

    def remaining(self) -> float:
        """Return the seconds to its deadline."""
        ...


class Recorder:
    """Appends the events of one worker to a file. ``worker`` is unique among all of a history."""

    def __init__(self, path: str | os.PathLike[str], worker: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        self._worker = worker
        self._numbers = itertools.count(1)

    def ask(
        self,
        name: str,
        *,
        kind: str = "lock",
        weight: int = 1,
        capacity: int = 1,
        timeout: float | None = None,
        place: int | None = None,
    ) -> int:
        """Record that acquire is about to be called; return the number of the claim.

        ``place``: its number in the line, where the test knows in which order they came. The other
        events name the claim by its number.
        """
        number = next(self._numbers)
        known: dict[str, Any] = {"name": name, "kind": kind, "weight": weight, "capacity": capacity}
        if timeout is not None:
            known["timeout"] = timeout
        if place is not None:
            known["place"] = place
        self._write("ask", c=number, **known)
        return number

    def held(self, claim: int, hold: HoldLike) -> None:
        """Acquire has returned this hold."""
        now = boottime()
        self._write("held", now, c=claim, fence=hold.fence, until=now + hold.remaining())

    def busy(self, claim: int) -> None:
        """Acquire has returned None."""
        self._write("busy", c=claim)

    def failed(self, claim: int, why: BaseException) -> None:
        """Acquire has raised."""
        self._write("failed", c=claim, why=f"{type(why).__name__}: {why}"[:300])

    def look(self, claim: int, hold: HoldLike) -> None:
        """Look whether it is held; raises what ``hold.check()`` raises, and writes that down."""
        now = boottime()
        try:
            hold.check()
        except Exception as lost:
            self.lost(claim, str(lost))
            raise
        self._write("look", now, c=claim, until=now + hold.remaining())

    def shrink(self, claim: int, weight: int) -> None:
        """It is about to be downgraded to this weight."""
        self._write("shrink", c=claim, weight=weight)

    def leaving(self, claim: int) -> None:
        """Release is about to be called."""
        self._write("leaving", c=claim)

    def left(self, claim: int, kept: bool) -> None:
        """Release has returned this."""
        self._write("left", c=claim, kept=kept)

    def lost(self, claim: int, why: object) -> None:
        """The hold is known to be lost."""
        self._write("lost", c=claim, why=str(why)[:300])

    def write(self, thing: str, fence: int) -> int:
        """A guarded write is about to be sent; return the number that ``wrote`` takes."""
        number = next(self._numbers)
        self._write("write", w=number, thing=thing, fence=fence)
        return number

    def wrote(self, number: int, accepted: bool, order: int | None = None) -> None:
        """It was accepted or refused; ``order``: its place, if the thing has returned one."""
        known = {} if order is None else {"order": order}
        self._write("wrote", w=number, accepted=accepted, **known)

    # -- queues ----------------------------------------------------------------------------

    def put(self, jobs: Sequence[tuple[str, int]]) -> int:
        """These are about to be put; return the number that ``accepted`` takes."""
        number = next(self._numbers)
        self._write("put", w=number, jobs=jobs)
        return number

    def accepted(self, number: int, dropped: int, sent: int) -> None:
        """The store accepted them; ``dropped``: number of duplicates; ``sent``: number of tries."""
        self._write("accepted", w=number, dropped=dropped, sent=sent)

    def took(self, asked: float, group: str, number: int, job: DeliveryLike) -> int:
        """A take has returned this job; return the number by which the other events name it."""
        execution = next(self._numbers)
        now, left = boottime(), job.remaining()
        # A worker that was stopped meanwhile and finds it lost doesn't know the time of the loss.
        until = now + left if left else asked
        known = {"asked": asked, "group": group, "n": number, "until": until}
        self._write("took", now, c=execution, fence=job.fence, attempt=job.attempt, **known)
        return execution

    def settling(self, execution: int, how: str) -> None:
        """It is about to be settled in this way: ``ack``, ``retry`` or ``return``."""
        self._write("leaving", c=execution, how=how)

    def unknown(self, execution: int) -> None:
        """The store did not answer whether it was settled."""
        self._write("unknown", c=execution)

    def there(self, jobs: Sequence[tuple[str, int]]) -> None:
        """No worker is left, and the queue still contains these."""
        self._write("there", jobs=jobs)

    # -- guards ----------------------------------------------------------------------------

    def got(self, asked: float, key: str, version: int, how: str) -> None:
        """A read that was begun at ``asked`` gave this version; ``how`` names its guard."""
        self._write("got", key=key, version=version, asked=asked, how=how)

    def changed(self, key: str, version: int) -> None:
        """The invalidation after this version of the source has returned."""
        self._write("changed", key=key, version=version)

    def computed(self, key: str, version: int) -> None:
        """This version was computed."""
        self._write("computed", key=key, version=version)

    def error(self, key: str, why: BaseException) -> None:
        """A read or an invalidation has raised."""
        self._write("error", key=key, why=f"{type(why).__name__}: {why}"[:300])

    # -- processes -------------------------------------------------------------------------

    def happened(self, what: str, who: str, since: float | None = None) -> None:
        """Record what was done to another process, or to a name's state in the store.

        ``what``: it was killed (``dead``), ``stopped`` or ``continued``; or the state is about to
        be ``damaged``, or was damaged at some moment after ``since``.
        """
        self._write(what, who=who, **({} if since is None else {"since": since}))

    def halted(self, since: float) -> None:
        """Record the times since then in which the machine held us up, as if we were stopped.

        See ``holdfast.testing.lag``.
        """
        for when, late in lag.long(since):
            self._write("stopped", when - late, who=self._worker)
            self._write("continued", when, who=self._worker)

    def bye(self) -> None:
        """The worker ends, with nothing under way."""
        self._write("bye")

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _write(self, op: str, now: float | None = None, **known: Any) -> None:
        event = {"t": boottime() if now is None else now, "p": self._worker, "op": op, **known}
        os.write(self._fd, json.dumps(event, separators=(",", ":")).encode() + b"\n")
