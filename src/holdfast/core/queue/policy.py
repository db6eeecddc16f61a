"""The arithmetic of queues, as pure functions."""

from __future__ import annotations

#: The reason recorded for a job whose lease expired because its worker did not renew it.
EXPIRED_REASON = "the lease expired: {} did not renew it"
#: Seconds: a queue can start in one moment as many deliveries as its rate allows in this time.
BURST_S = 0.1


def rate_burst(rate: float) -> float:
    """Return the number of deliveries that a queue of this rate can start in one moment.

    >>> rate_burst(5), rate_burst(200)
    (1.0, 20.0)
    """
    return max(1.0, rate * BURST_S)


def retry_after(attempt: int, first: float, longest: float, jitter: float) -> float:
    """Return the pause in seconds after a failed attempt: the pause doubles with each attempt, and
    a fifth of the pause is random.

    >>> [retry_after(n, 1.0, 60.0, 1.0) for n in (1, 2, 3, 10)]
    [1.0, 2.0, 4.0, 60.0]
    """
    full: float = min(longest, first * 2.0 ** min(attempt - 1, 30))
    return full * (0.8 + 0.2 * jitter)
