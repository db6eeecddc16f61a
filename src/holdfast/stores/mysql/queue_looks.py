"""Plain reads of serial queues, which lock nothing and change nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.queue.model import JobRecord, JobState, QueueRecord
from .replies import Rows, text
from .statements import NOW, literal, of_names

#: The place of a job: its seq, its group, and True if it is a dead letter.
Place = tuple[int, bytes, bool]
_MICRO = 1e-6
_SURVEY = """
SELECT q.name,
  (SELECT COALESCE(SUM(c.depth), 0) FROM {prefix}_counts c WHERE c.queue = q.id),
  (SELECT COUNT(*) FROM {prefix}_tracks t
    WHERE t.queue = q.id AND t.stands = 2 AND t.moment > {now}),
  (SELECT COUNT(*) FROM {prefix}_dead d WHERE d.queue = q.id),
  (SELECT COUNT(*) FROM {prefix}_tracks t
    WHERE t.queue = q.id AND t.grp > '' AND t.stands < 4),
  (SELECT COUNT(DISTINCT d.grp) FROM {prefix}_dead d
    WHERE d.queue = q.id AND d.grp > '' AND NOT EXISTS
      (SELECT 1 FROM {prefix}_tracks t
        WHERE t.queue = d.queue AND t.grp = d.grp AND t.single = 0 AND t.stands < 4)),
  (SELECT {now} - j.accepted FROM {prefix}_jobs j
    WHERE j.queue = q.id AND NOT EXISTS
      (SELECT 1 FROM {prefix}_tracks t
        WHERE t.queue = j.queue AND t.grp = j.grp AND t.single = IF(j.grp = '', j.seq, 0)
          AND t.stands = 2 AND t.moment > {now} AND t.head = j.seq)
    ORDER BY j.seq LIMIT 1),
  (SELECT COALESCE(SUM(c.accepted), 0) FROM {prefix}_counts c WHERE c.queue = q.id),
  (SELECT COALESCE(SUM(c.done), 0) FROM {prefix}_counts c WHERE c.queue = q.id)
FROM {prefix}_queues q
WHERE {{which}} AND EXISTS (SELECT 1 FROM {prefix}_counts c WHERE c.queue = q.id)
"""
#: `stands` is 2 for a delivered job. For other jobs, `moment` is the time when the job is due.
_TAKEN = "(t.stands = 2 AND t.moment > {now})"
_DUE = "COALESCE(IF(t.stands = 2, 0, t.moment), j.ready)"
_STATE = f"IF(COALESCE({_TAKEN}, 0), 2, IF({_DUE} > {{now}}, 1, 0))"
_STATES = (JobState.WAITING, JobState.DELAYED, JobState.TAKEN, JobState.DEAD)
_ROW = f"""
SELECT j.seq, j.id, j.grp, {_STATE} AS state, j.payload, COALESCE(t.attempts, 0) AS attempts,
  {{now}} - j.accepted AS age, {_DUE} - {{now}} AS due, COALESCE(t.moment, 0) - {{now}} AS ends,
  COALESCE(t.owner, '') AS owner, COALESCE(t.reason, '') AS reason
"""
_JOBS = f"""
{_ROW} FROM {{prefix}}_jobs j LEFT JOIN {{prefix}}_tracks t
  ON t.queue = j.queue AND t.grp = j.grp AND t.single = IF(j.grp = '', j.seq, 0)
    AND t.head = j.seq AND t.stands < 3
WHERE j.queue = {{queue}}
"""
#: Reads only the few groups with a delivered job, and these jobs, not all jobs of the queue.
_LOANS = f"""
{_ROW} FROM {{prefix}}_tracks t FORCE INDEX (by_moment) STRAIGHT_JOIN {{prefix}}_jobs j
  ON j.queue = t.queue AND j.seq = t.head AND j.grp = t.grp
WHERE t.queue = {{queue}} AND t.stands = 2 AND t.moment > {{now}}
"""
_DEAD = """
SELECT j.seq, j.id, j.grp, 3 AS state, j.payload, j.attempts, {now} - j.accepted AS age, 0 AS due,
  0 AS ends, '' AS owner, j.reason
FROM {prefix}_dead j WHERE j.queue = {queue}
"""


class QueueLooks:
    """Makes the statements, for tables with this prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._survey = _SURVEY.format(prefix=prefix, now=NOW)
        self._queue = f"(SELECT id FROM {prefix}_queues WHERE name = {{}})"  # noqa: S608
        self._due = (
            f"SELECT 1 FROM {prefix}_queues q JOIN {prefix}_tracks t FORCE INDEX (by_moment) "  # noqa: S608
            f"ON t.queue = q.id WHERE q.name = {{}} AND t.stands IN (0, 1, 2) "
            f"AND t.moment <= {NOW} LIMIT 1"
        )

    def due(self, queue: str) -> str:
        """Return a statement that finds a row if a job is due or a delivery's lease has expired."""
        return self._due.format(literal(queue.encode()))

    def survey(self, prefix: str, exact: bool) -> str:
        """Return the statement for the queue with this name, or for queues with this prefix."""
        return self._survey.replace("{which}", of_names("q.name", prefix, exact))

    def jobs(self, queue: str, state: JobState | None, group: str | None, most: int) -> str:
        """Return the statement for at most ``most`` jobs in the order of acceptance.

        The jobs can be limited to one state and to one group; None: no limit.
        """
        return self._jobs("*", queue, state, None, group, most)

    def letters(self, queue: str) -> str:
        """Return the statement for the ids of all dead letters."""
        which = self._queue.format(literal(queue.encode()))
        return f"SELECT id FROM {self._prefix}_dead WHERE queue = {which} ORDER BY seq"  # noqa: S608

    def places(
        self, queue: str, state: JobState | None, ids: Sequence[str] | None, most: int
    ) -> str:
        """Return the statement for the places of at most ``most`` jobs that aren't delivered."""
        return self._jobs("seq, grp, state", queue, state, ids, None, most, "state <> 2")

    def _jobs(
        self,
        what: str,
        queue: str,
        state: JobState | None,
        ids: Sequence[str] | None,
        group: str | None,
        most: int,
        wanted: str = "TRUE",
    ) -> str:
        which = ""
        if ids is not None:
            which += f" AND j.id IN ({','.join(literal(one.encode()) for one in ids)})"
        if group is not None:
            which += f" AND j.grp = {literal(group.encode())}"
        if state is not None:
            wanted = f"state = {_STATES.index(state)}"
        sources = [_DEAD] if state is JobState.DEAD else [_JOBS, _DEAD]
        if state is not None and state is not JobState.DEAD:
            sources = [_LOANS if state is JobState.TAKEN else _JOBS]
        values = {
            "prefix": self._prefix,
            "now": NOW,
            "queue": self._queue.format(literal(queue.encode())),
        }
        parts = [
            f"({one.format(**values)}{which} HAVING {wanted} ORDER BY j.seq LIMIT {most})"
            for one in sources
        ]
        union = " UNION ALL ".join(parts)
        return f"SELECT {what} FROM ({union}) found ORDER BY seq LIMIT {most}"  # noqa: S608


def surveyed(rows: Rows) -> list[QueueRecord]:
    """Return the queues of a reply, sorted by name."""
    found = []
    for name, depth, taken, dead, groups, only_dead, oldest, accepted, done in rows:
        sizes = (max(0, int(depth) - taken), taken, dead, groups + only_dead)
        age = max(0, oldest or 0) * _MICRO
        found.append(QueueRecord(text(name), *sizes, age, int(accepted), int(done)))
    return sorted(found)


def listed(rows: Rows) -> list[JobRecord]:
    """Return the jobs of a reply."""
    found = []
    for _, known, group, state, payload, attempts, age, due, ends, owner, reason in rows:
        stands = _STATES[state]
        found.append(
            JobRecord(
                text(known),
                text(group),
                stands,
                bytes(payload),
                attempts,
                max(0, age) * _MICRO,
                due * _MICRO if stands is JobState.DELAYED else 0.0,
                ends * _MICRO if stands is JobState.TAKEN else 0.0,
                text(owner) if stands is JobState.TAKEN else "",
                text(reason),
            )
        )
    return found


def placed(rows: Rows) -> list[Place]:
    """Return the places of jobs in a reply."""
    return [(seq, bytes(group), _STATES[state] is JobState.DEAD) for seq, group, state in rows]
