"""The arithmetic of queues, as pure functions."""

from __future__ import annotations

#: The reason recorded for a job whose lease expired because its worker did not renew it.
EXPIRED_REASON = "the lease ended, as {} was heard of no more"
#: A queue can exceed its rate for a moment by this many seconds' worth of deliveries.
BURST_S = 0.1


def rate_burst(rate: float) -> float:
    """The number of deliveries that a queue of this rate can start at once.

    >>> rate_burst(5), rate_burst(200)
    (1.0, 20.0)
    """
    return max(1.0, rate * BURST_S)


def retry_after(attempt: int, first: float, longest: float, jitter: float) -> float:
    """Seconds until the attempt after a failed one: doubling, with a random fifth.

    >>> [retry_after(n, 1.0, 60.0, 1.0) for n in (1, 2, 3, 10)]
    [1.0, 2.0, 4.0, 60.0]
    """
    full: float = min(longest, first * 2.0 ** min(attempt - 1, 30))
    return full * (0.8 + 0.2 * jitter)
