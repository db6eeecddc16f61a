"""What those who put and those who work write down, so that it can be judged afterwards.

A file per process and a line of JSON per event, as in ``holdfast.testing.histories``, whose rules
hold here too: an execution begins to count after take has returned, and ends to count before it is
settled. An event has ``t`` seconds, ``p`` the process, ``op`` and what belongs to it:

    put       w jobs          these are about to be put: [group, number] each, in order
    accepted  w dropped sent  the store has them; so many were duplicates; sent so many times
    took      c asked group n fence attempt until
                              a take that was begun at ``asked`` delivered job n of the group
    look      c until         check() has passed
    lost      c why           the delivery is known to be lost
    leaving   c how           it is about to be settled: ack, retry or return
    left      c kept          that has returned this
    unknown   c               the store did not say whether it was settled
    there     jobs            nobody works any more, and the queue still has these: [group, n] each
    dead stopped continued bye
                              as in the histories of locks

Jobs of a group are put by one process, numbered from 1 on. ``group`` is ``""`` in the plain lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...runtime.blocking import boottime
from ..histories import Recorder


class DeliveryLike(Protocol):
    """What is asked of a delivery."""

    @property
    def fence(self) -> int:
        """Its fencing token."""
        ...

    @property
    def attempt(self) -> int:
        """How often the job was delivered, this time included."""
        ...

    def remaining(self) -> float:
        """Seconds for which it may be believed."""
        ...


class QueueRecorder(Recorder):
    """Appends what one process does with a queue to a file."""

    def put(self, jobs: Sequence[tuple[str, int]]) -> int:
        """These are about to be put; the number that ``accepted`` takes."""
        number = next(self._numbers)
        self._write("put", w=number, jobs=jobs)
        return number

    def accepted(self, number: int, dropped: int, sent: int) -> None:
        """The store has them; ``dropped`` of them were duplicates. They were put so many times."""
        self._write("accepted", w=number, dropped=dropped, sent=sent)

    def took(self, asked: float, group: str, number: int, job: DeliveryLike) -> int:
        """A take has returned this job; the number by which the other events name it."""
        execution = next(self._numbers)
        now, left = boottime(), job.remaining()
        # Who was stopped meanwhile, and finds it lost, doesn't know since when.
        until = now + left if left else asked
        known = {"asked": asked, "group": group, "n": number, "until": until}
        self._write("took", now, c=execution, fence=job.fence, attempt=job.attempt, **known)
        return execution

    def settling(self, execution: int, how: str) -> None:
        """It is about to be settled so: ``ack``, ``retry`` or ``return``."""
        self._write("leaving", c=execution, how=how)

    def unknown(self, execution: int) -> None:
        """The store did not say whether it was settled."""
        self._write("unknown", c=execution)

    def there(self, jobs: Sequence[tuple[str, int]]) -> None:
        """Nobody works any more, and the queue still has these."""
        self._write("there", jobs=jobs)
