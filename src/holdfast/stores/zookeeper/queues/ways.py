"""Parts of the transactions that end a delivery and set the next state of its group."""

from __future__ import annotations

from ....core.queue.model import Settle, Start, Verdict
from ..requests import Check, Create, Delete, Put, Stat
from .clock import Clock
from .loans import Loan
from .names import Entry, job_at
from .notes import JobNote, State, ms, stamp
from .space import Space

Part = Put | Check | Create | Delete


def known_over(space: Space, note: JobNote) -> list[Part]:
    """Return the parts that record the end of an id's job: then only the window keeps the id."""
    if note.window < 0:
        return []
    return [Put(space.place.known(note.id), f"{note.window} over".encode())]


def dead_letter(space: Space, note: JobNote, attempts: int, reason: str, stat: Stat) -> Part:
    """Return the part that stores a job as a dead letter. ``stat``: of the job's node."""
    since = note.accepted or stamp(stat.created)
    order = note.order or stat.czxid
    told = note._replace(attempts=attempts, reason=reason, accepted=since, order=order)
    return Create(space.place.at("dead", "-"), told.data(), numbered=True)


def entry_node(
    space: Space,
    entry: Entry,
    first: str,
    attempts: int = 0,
    gap: int = 0,
    at: int = 0,
    data: bytes = b"",
) -> Part:
    """Return the part that creates the entry that replaces this one."""
    start = entry.next(first, attempts, gap, at)
    return Create(space.place.at(entry.folder, start), data, numbered=True)


class Ways:
    """Makes the parts. Due times in parts are hints: the leader's clock is only estimated."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def hint(self, gap: int, at: int, now: float) -> int:
        """Return the due time of an entry that waits ``gap`` ms from now, and until ``at``."""
        return max(at, self._clock.most(now) + gap) if gap else at

    def onward(self, space: Space, entry: Entry, gap: int, at: int, now: float) -> list[Part]:
        """Return the parts that follow the end of a group's first job.

        They create an entry for the next job, due ``gap`` ms from now and not before ``at``. They
        remove the group if it has no more jobs and needs no pause."""
        if not entry.group:
            return []
        place = space.place
        following = space.after(entry) if entry.first else space.first(entry)
        if not following and not gap and not at:
            space.existing.discard(entry.group)
            return [Delete(place.at("groups", entry.group))]
        due = self.hint(gap, at, now)
        if not following:
            return [entry_node(space, entry, "", 0, gap, due)]
        due = max(due, job_at(following))
        here = Check(place.job(entry.group, following))
        return [here, entry_node(space, entry, following, 0, gap, due)]

    def settling(self, loan: Loan, settle: Settle, now: float) -> list[Part]:
        """Return the parts that settle this delivery."""
        space, entry, note = loan.space, loan.entry, loan.note
        pace = loan.take.pace
        gap, at = 0, 0
        if entry.group and pace.min_interval:
            if pace.start is Start.ACK:
                gap = ms(pace.min_interval)
            else:
                at = loan.taken + ms(pace.min_interval) + 1
        written = space.place.entry(entry)
        parts: list[Part] = [*loan.ours(), Delete(written)]
        if settle.verdict is Verdict.ACK:
            parts += [Delete(loan.job), *known_over(space, note), Put(space.place.at("done"), b"")]
            return parts + self.onward(space, entry, gap, at, now)
        if settle.verdict is Verdict.DEAD:
            return parts + self._given_up(loan, settle.reason, gap, at, now)
        attempts = loan.attempt
        if settle.verdict is Verdict.RETURN:
            attempts -= 1  # not an attempt; the new entry comes after all existing ones
        pause = max(gap, ms(settle.delay))
        told = State(reason=settle.reason, gap=gap, rest=at).data()
        due = self.hint(pause, at, now)
        return [*parts, entry_node(space, entry, entry.first, attempts, pause, due, told)]

    def _given_up(self, loan: Loan, reason: str, gap: int, at: int, now: float) -> list[Part]:
        space, entry = loan.space, loan.entry
        if loan.take.patience.blocks and entry.group:
            start = entry.next(entry.first, loan.attempt, blocked=True)
            told = State(reason=reason).data()
            return [Create(space.place.at(entry.folder, start), told, numbered=True)]
        letter = dead_letter(space, loan.note, loan.attempt, reason, loan.stat)
        return [Delete(loan.job), letter, *self.onward(space, entry, gap, at, now)]
