"""Content of the nodes of a queue: a line of JSON, and behind it the payload of a job."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ....core.queue.model import Job, Pace, Patience, Start, Take
from ....core.queue.policy import EXPIRED_REASON

#: What a job is called whose node was damaged, and what its payload then begins with.
DAMAGED, UNREADABLE = "damaged", b"?"
#: No number of ours is as great.
_GREATEST = 1 << 62


class JobNote(NamedTuple):
    """A job. ``turn``: its place in its request. ``window``: milliseconds for which its id is
    remembered, -1 if it isn't. ``delay``: milliseconds after its acceptance.

    Of one that is or was a dead letter, ``accepted`` says when, and ``order`` by which transaction
    it was accepted; else its node does. ``attempts`` and ``reason`` are those of a dead letter.
    """

    id: str
    group: str
    payload: bytes
    turn: int = 0
    window: int = -1
    delay: int = 0
    accepted: int = 0
    attempts: int = 0
    reason: str = ""
    order: int = 0

    def data(self) -> bytes:
        """As it stands in its node."""
        usual = self._field_defaults
        short = {
            name: value
            for name, value in self._asdict().items()
            if name != "payload" and (name not in usual or value != usual[name])
        }
        return json.dumps(short, separators=(",", ":")).encode() + b"\n" + self.payload


def job_note(job: Job, turn: int, window: float) -> JobNote:
    """A job that is put."""
    kept = ms(window) if job.known else -1
    return JobNote(job.id, job.group, job.payload, turn, kept, ms(job.delay))


def read_job(data: bytes) -> JobNote:
    r"""A job, from its node.

    Of one that was damaged from outside only the bytes are left, as a payload that can't be read:
    its attempts fail, and it becomes a dead letter that people can look at.

    >>> read_job(b'{"id":"a","group":"g"}\nbytes').group
    'g'
    >>> read_job(b"\xff\xff").id
    'damaged'
    """
    head, _, payload = data.partition(b"\n")
    told = _told(head, JobNote)
    if "id" not in told:
        return JobNote(DAMAGED, "", UNREADABLE + data)
    return JobNote(**{"group": "", **told, "payload": payload})


def _told(text: bytes, of: type[JobNote | State]) -> dict[str, Any]:
    """The fields of this record that stand there; none, if any isn't what it must be."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(told, dict):
        return {}
    kinds = {"id": str, "group": str, **{k: type(v) for k, v in of._field_defaults.items()}}
    right = all(type(told[name]) is kinds.get(name) for name in told)
    return told if right and all(_plausible(value) for value in told.values()) else {}


def _plausible(value: object) -> bool:
    return not isinstance(value, int) or abs(value) < _GREATEST


class State(NamedTuple):
    """What was written to an entry: how often its first job was delivered, and the last delivery.

    ``owner`` is empty if it was returned, and isn't delivered. ``most``, ``blocks``, ``gap``,
    ``from_take`` and ``ttl`` are the retry policy, the pace and the lease that came with the
    delivery.

    Of a job that is to be tried again ``gap`` is what holds back its group, from when its entry
    was made, and ``rest`` until when it is held back in any case: its own pause may be longer.
    """

    attempts: int = 0
    owner: str = ""
    most: int = 0
    blocks: bool = False
    gap: int = 0
    from_take: bool = False
    reason: str = ""
    ttl: int = 0
    rest: int = 0

    def data(self) -> bytes:
        """As it stands in the entry."""
        told = {name: value for name, value in self._asdict().items() if value}
        return json.dumps(told, separators=(",", ":")).encode()

    @property
    def expired(self) -> str:
        """Why the job stands where it does, if the mark of its delivery is gone."""
        return EXPIRED_REASON.format(self.owner)


def lent(take: Take, attempts: int, reason: str = "") -> State:
    """What is written by a take."""
    pace: Pace = take.pace
    patience: Patience = take.patience
    from_take = pace.start is Start.TAKE
    most = patience.attempts
    gap, ttl = ms(pace.min_interval), ms(take.ttl)
    return State(attempts, take.owner, most, patience.blocks, gap, from_take, reason, ttl)


def read_state(data: bytes) -> State:
    """What was written to an entry; as if nothing had been, where it was damaged from outside.

    >>> read_state(b"").attempts, read_state(State(3, "a").data()).attempts
    (0, 3)
    """
    return State(**_told(data, State)) if data else State()


def ms(seconds: float) -> int:
    """Whole milliseconds, never fewer.

    >>> ms(0.0), ms(0.25), ms(0.0001)
    (0, 250, 1)
    """
    return int(-(-seconds * 1000 // 1))


def stamp(seconds: float) -> int:
    """A time of the server's in milliseconds, as it was sent.

    >>> stamp(1700000000.123)
    1700000000123
    """
    return round(seconds * 1000)
