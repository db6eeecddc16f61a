"""The arithmetic of queues, as pure functions."""

from __future__ import annotations

#: Why a job stands where it does, when its worker was heard of no more.
EXPIRED_REASON = "the lease ended, as {} was heard of no more"
#: Seconds' worth of its rate by which a queue may exceed the rate for a moment.
BURST_S = 0.1


def rate_burst(rate: float) -> float:
    """How many deliveries a queue of this rate may start at once.

    >>> rate_burst(5), rate_burst(200)
    (1.0, 20.0)
    """
    return max(1.0, rate * BURST_S)


def retry_after(attempt: int, first: float, longest: float, jitter: float) -> float:
    """Seconds until the next attempt of a job that failed so often: doubling, a fifth of it random.

    >>> [retry_after(n, 1.0, 60.0, 1.0) for n in (1, 2, 3, 10)]
    [1.0, 2.0, 4.0, 60.0]
    """
    full: float = min(longest, first * 2.0 ** min(attempt - 1, 30))
    return full * (0.8 + 0.2 * jitter)
