"""The port to MySQL and MariaDB: the requests of the verbs, and the polls of a waiter.

There are no wake-ups: a waiter polls, with growing pauses. A *look* is one poll. It neither locks
nor writes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ...errors import StoreUnavailable
from .replies import Rows

#: A waiter's pauses between two looks: the first one in seconds, the factor by which they grow, and
#: the longest one. Together with the request that renews a claim, a waiter sends less than ten
#: statements a second.
LOOK_FIRST_S, LOOK_MORE, LOOK_LAST_S = 0.01, 1.6, 0.14
#: Time limit of a look, in seconds; a later look may succeed.
LOOK_S = 1.0


class Port(Protocol):
    """Sends statements to the server."""

    #: The name of the store in messages; never with a password.
    label: str

    async def call(self, sql: str, within: float) -> Rows:
        """Return the rows of the reply, within ``within`` seconds, or ``StoreUnavailable``.

        A statement that the server has rolled back is sent again; one that it may have carried out
        never is. Missing tables and procedures are made.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for this many seconds."""
        ...

    def now(self) -> float:
        """Return the seconds of a clock that never jumps."""
        ...

    async def close(self) -> None:
        """End the connections."""
        ...

    def forked(self) -> None:
        """Forget the parent's connections, in the child of a fork."""
        ...


async def look_until(
    port: Port,
    sql: str,
    pauses: dict[str, float],
    waiter: str,
    ends: Callable[[Rows], bool],
    seconds: float,
    last: float = LOOK_LAST_S,
) -> Rows | None:
    """Look until the rows end the wait of this waiter, at most ``seconds``; return these rows.

    Return None if the time is up or the server gives no answer: the caller then sends its verb
    again, which is as good as a look.

    :param pauses: for each waiter the pause before its next look, which grows here.
    :param last: the longest pause.
    """
    until = port.now() + seconds
    while True:
        pause = pauses.get(waiter, LOOK_FIRST_S)
        left = until - port.now()
        await port.sleep(max(0.0, min(pause, left)))
        if left <= pause:
            return None
        pauses[waiter] = min(pause * LOOK_MORE, last)
        try:
            rows = await port.call(sql, min(LOOK_S, max(until - port.now(), LOOK_FIRST_S)))
        except StoreUnavailable:
            return None
        if ends(rows):
            return rows
