"""The record that a worker writes about its own actions, to be judged afterwards.

Each worker has one file, with one line of JSON per event. One call writes a line before the event
takes effect. So each line is complete, and a killed worker leaves all events before its death.
Times are the boot time of the machine, which all its processes share. A hold counts from the return
of acquire until the call of release, so an overlap in the history is a real overlap.

An event has ``t`` (seconds), ``p`` (the worker), ``op``, and more fields. ``c`` is the number of a
claim or an execution, and ``w`` the number of a write or a put:

    ask      c name kind weight capacity [timeout] [place]   acquire is about to be called
    held     c fence until      acquire returned a hold, which is valid until then at least
    busy     c                  acquire returned None
    failed   c why              acquire raised
    look     c until            check() has passed
    shrink   c weight           the hold is about to be downgraded
    leaving  c                  release is about to be called
    left     c kept             release has returned
    lost     c why              the hold is known to be lost
    write    w thing fence      a fenced write is about to be sent
    wrote    w accepted [order] the write was accepted or refused
    dead     who                another process is about to kill this worker
    stopped continued  who      another process, or a slow machine, has stopped this worker
    damaged  who [since]        the state of this name in the store is about to be damaged, or was
                                damaged after ``since``
    forgotten who               the last fence of this name is about to be damaged, or was damaged:
                                later fences may be lower
    bye                         the worker ends, and no request is under way

Serial queues. An execution counts from the return of take until it is about to be settled. One
process puts all jobs of a group, numbered from 1 on; ``group`` is ``""`` for ungrouped jobs.

    put       w jobs            these jobs are about to be put: [group, number] each, in order
    accepted  w dropped sent    the store accepted them; the numbers of duplicates and of tries
    took      c asked group n fence attempt until
                                a take that began at ``asked`` delivered job n of the group
    leaving   c how             the job is about to be settled: ack, retry or return
    unknown   c                 the request to settle got no reply
    there     jobs              no worker is left, and the queue still contains these jobs
    look, lost and left         as above, for an execution

Refresh guards:

    got       key version asked how
                                a read that began at ``asked`` returned this version of the source
    changed   key version       the invalidation after this change of the source has returned
    computed  key version       a computation has read this version
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
        """The fence of the hold."""
        ...

    def remaining(self) -> float:
        """Return the seconds to its deadline."""
        ...

    def check(self) -> object:
        """Raise if the hold is lost."""
        ...


class DeliveryLike(Protocol):
    """The parts of a delivery that the recorder uses."""

    @property
    def fence(self) -> int:
        """The fence of the delivery."""
        ...

    @property
    def attempt(self) -> int:
        """The number of this delivery of the job, from 1."""
        ...

    def remaining(self) -> float:
        """Return the seconds to its deadline."""
        ...


class Recorder:
    """Appends the events of one worker to a file. Each worker of a history has a unique name."""

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

        The other events name the claim by this number. ``place``: the place of the claim in the
        line, if the test determines the order of arrival.
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
        """Record that acquire has returned this hold."""
        now = boottime()
        self._write("held", now, c=claim, fence=hold.fence, until=now + hold.remaining())

    def busy(self, claim: int) -> None:
        """Record that acquire has returned None."""
        self._write("busy", c=claim)

    def failed(self, claim: int, why: BaseException) -> None:
        """Record that acquire has raised."""
        self._write("failed", c=claim, why=f"{type(why).__name__}: {why}"[:300])

    def look(self, claim: int, hold: HoldLike) -> None:
        """Call ``hold.check()``, record its result, and raise its exception if it raised."""
        now = boottime()
        try:
            hold.check()
        except Exception as lost:
            self.lost(claim, str(lost))
            raise
        self._write("look", now, c=claim, until=now + hold.remaining())

    def shrink(self, claim: int, weight: int) -> None:
        """Record that the hold is about to be downgraded to this weight."""
        self._write("shrink", c=claim, weight=weight)

    def leaving(self, claim: int) -> None:
        """Record that release is about to be called."""
        self._write("leaving", c=claim)

    def left(self, claim: int, kept: bool) -> None:
        """Record the result of release."""
        self._write("left", c=claim, kept=kept)

    def lost(self, claim: int, why: object) -> None:
        """Record that the hold is known to be lost."""
        self._write("lost", c=claim, why=str(why)[:300])

    def write(self, thing: str, fence: int) -> int:
        """Record that a fenced write is about to be sent; return its number, for ``wrote``."""
        number = next(self._numbers)
        self._write("write", w=number, thing=thing, fence=fence)
        return number

    def wrote(self, number: int, accepted: bool, order: int | None = None) -> None:
        """Record that the write was accepted or refused.

        ``order``: the place of the write, if the thing has returned one.
        """
        known = {} if order is None else {"order": order}
        self._write("wrote", w=number, accepted=accepted, **known)

    # -- queues ----------------------------------------------------------------------------

    def put(self, jobs: Sequence[tuple[str, int]]) -> int:
        """Record that these jobs are about to be put; return a number, for ``accepted``."""
        number = next(self._numbers)
        self._write("put", w=number, jobs=jobs)
        return number

    def accepted(self, number: int, dropped: int, sent: int) -> None:
        """Record that the store accepted the jobs of this put.

        ``dropped``: number of duplicates; ``sent``: number of tries.
        """
        self._write("accepted", w=number, dropped=dropped, sent=sent)

    def took(self, asked: float, group: str, number: int, job: DeliveryLike) -> int:
        """Record that a take has returned this job; return the number of the execution."""
        execution = next(self._numbers)
        now, left = boottime(), job.remaining()
        # If the delivery is lost already (the worker was stopped), the time of the loss is unknown.
        until = now + left if left else asked
        known = {"asked": asked, "group": group, "n": number, "until": until}
        self._write("took", now, c=execution, fence=job.fence, attempt=job.attempt, **known)
        return execution

    def settling(self, execution: int, how: str) -> None:
        """Record that the job is about to be settled by ``ack``, ``retry`` or ``return``."""
        self._write("leaving", c=execution, how=how)

    def unknown(self, execution: int) -> None:
        """Record that the request to settle got no reply."""
        self._write("unknown", c=execution)

    def there(self, jobs: Sequence[tuple[str, int]]) -> None:
        """Record the jobs that the queue still contains when no worker is left."""
        self._write("there", jobs=jobs)

    # -- guards ----------------------------------------------------------------------------

    def got(self, asked: float, key: str, version: int, how: str) -> None:
        """Record that a read that began at ``asked`` returned this version.

        ``how`` names the guard.
        """
        self._write("got", key=key, version=version, asked=asked, how=how)

    def changed(self, key: str, version: int) -> None:
        """Record that the invalidation after this change of the source has returned."""
        self._write("changed", key=key, version=version)

    def computed(self, key: str, version: int) -> None:
        """Record that a computation has read this version."""
        self._write("computed", key=key, version=version)

    def error(self, key: str, why: BaseException) -> None:
        """Record that a read or an invalidation has raised."""
        self._write("error", key=key, why=f"{type(why).__name__}: {why}"[:300])

    # -- processes -------------------------------------------------------------------------

    def happened(self, what: str, who: str, since: float | None = None) -> None:
        """Record a fault of another process, or of the state of a name in the store.

        ``what``: see the events ``dead``, ``stopped``, ``continued``, ``damaged`` and ``forgotten``
        above. ``who`` is the worker or the name.
        """
        self._write(what, who=who, **({} if since is None else {"since": since}))

    def halted(self, since: float) -> None:
        """Record, as stops, the long delays that the machine caused this process since ``since``.

        See ``holdfast.testing.lag``.
        """
        for when, late in lag.long(since):
            self._write("stopped", when - late, who=self._worker)
            self._write("continued", when, who=self._worker)

    def bye(self) -> None:
        """Record that the worker ends, and that no request is under way."""
        self._write("bye")

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _write(self, op: str, now: float | None = None, **known: Any) -> None:
        event = {"t": boottime() if now is None else now, "p": self._worker, "op": op, **known}
        os.write(self._fd, json.dumps(event, separators=(",", ":")).encode() + b"\n")
