"""Content of the nodes of a queue: a line of JSON, followed by the payload of a job."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ....core.queue.model import Job, Pace, Patience, Start, Take
from ....core.queue.policy import EXPIRED_REASON

#: The id of a job whose node was damaged, and the first byte of its payload.
DAMAGED, UNREADABLE = "damaged", b"?"
#: Upper bound of all our numbers.
_GREATEST = 1 << 62


class JobNote(NamedTuple):
    """The data of a job's node. ``turn``: the job's position in its put.

    ``window``: milliseconds for which the id is remembered; -1: it isn't. ``delay``: milliseconds
    from the acceptance until the job is due. ``accepted`` and ``order``: time and transaction of
    the acceptance. These two are set only if the job is or was a dead letter; for other jobs the
    `Stat` of the node contains both values. ``attempts`` and ``reason`` are set only for a dead
    letter.
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
        """Return the data for the job's node."""
        usual = self._field_defaults
        short = {
            name: value
            for name, value in self._asdict().items()
            if name != "payload" and (name not in usual or value != usual[name])
        }
        return json.dumps(short, separators=(",", ":")).encode() + b"\n" + self.payload


def job_note(job: Job, turn: int, window: float) -> JobNote:
    """Return the note of a job that is put."""
    kept = ms(window) if job.known else -1
    return JobNote(job.id, job.group, job.payload, turn, kept, ms(job.delay))


def read_job(data: bytes) -> JobNote:
    r"""Parse a job's node.

    If another program damaged the node, return a job with a payload that can't be decoded. Its
    attempts fail, so it becomes a dead letter that a person can inspect.

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
    """Return the fields in a JSON text; no field at all if any field is invalid for ``of``."""
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
    """The data of an entry: the attempts at its first job, and the last delivery of that job.

    ``owner`` is empty if the job isn't delivered, because it was released or will be retried. The
    retry policy of the delivery is in ``most`` and ``blocks``, its `min_interval` in ``gap`` and
    ``from_take``, and its lease in ``ttl``. All times are in milliseconds.

    For a job that will be retried, two fields hold back its group: ``gap`` counts from the creation
    of the entry, ``rest`` is a time of the leader. The pause of the job itself can be longer.
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
        """Return the data for the entry."""
        told = {name: value for name, value in self._asdict().items() if value}
        return json.dumps(told, separators=(",", ":")).encode()

    @property
    def expired(self) -> str:
        """The failure reason for a delivery that ended with its mark."""
        return EXPIRED_REASON.format(self.owner)


def lent(take: Take, attempts: int, reason: str = "") -> State:
    """Return the state that a take writes to an entry."""
    pace: Pace = take.pace
    patience: Patience = take.patience
    from_take = pace.start is Start.TAKE
    most = patience.attempts
    gap, ttl = ms(pace.min_interval), ms(take.ttl)
    return State(attempts, take.owner, most, patience.blocks, gap, from_take, reason, ttl)


def read_state(data: bytes) -> State:
    """Parse the data of an entry; invalid data counts as empty.

    >>> read_state(b"").attempts, read_state(State(3, "a").data()).attempts
    (0, 3)
    """
    return State(**_told(data, State)) if data else State()


def ms(seconds: float) -> int:
    """Convert seconds to whole milliseconds, rounded up.

    >>> ms(0.0), ms(0.25), ms(0.0001)
    (0, 250, 1)
    """
    return int(-(-seconds * 1000 // 1))


def stamp(seconds: float) -> int:
    """Convert a time of the server from seconds to milliseconds, the unit of the server.

    >>> stamp(1700000000.123)
    1700000000123
    """
    return round(seconds * 1000)
