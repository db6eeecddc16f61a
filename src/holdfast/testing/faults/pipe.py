"""Wait for data in a pipe, for a limited time."""

from __future__ import annotations

import select


def readable(fd: int, within: float | None) -> bool:
    """Return True if data or the end of the pipe arrives in ``within`` seconds (None: no limit).

    The function uses ``poll``, because ``select`` accepts no descriptor beyond 1,023.
    """
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if within is None else max(0.0, within) * 1000))
