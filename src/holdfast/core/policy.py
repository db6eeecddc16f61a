"""The arithmetic of leases, as pure functions: grants, deadlines, pauses.

Two rules are the basis of all safety above them:

* A deadline counts from *before* the request was sent, never from its reply, less a margin for
  clocks that run at different rates. So a hold ends in the client before it expires in the store.
* A push isn't a lease: it makes a waiter a holder but extends nothing. The deadline of the hold is
  the last answered request plus the waiter TTL.
"""

from __future__ import annotations

#: The waiter TTL in seconds: a dead waiter can delay others for this time.
PATIENCE_S = 3.0
#: Maximum seconds after which a waiter asks again, even without a wake-up.
ASK_AGAIN_S_MAX = PATIENCE_S / 3
#: The maximum in place of `ASK_AGAIN_S_MAX` if the store requests a longer pause. With it a waiter
#: asks twice within its waiter TTL, and a wake-up that comes between two requests is still in time
#: to be used.
NAP_S_MAX = PATIENCE_S * 0.4
#: A tombstone lasts for the claim's ttl and this time: no request is under way for longer.
TOMB_S = 30.0
#: Minimum seconds between two requests, whatever a store answers.
ASK_AGAIN_S_MIN = 0.002
#: Two clocks may differ in rate by this part of a lease.
RATE_ERROR = 0.01
#: Seconds by which the store may date a request earlier than the client sent it.
MARGIN_S = 0.002
#: The interval of renewals is the length of the lease divided by this number. So two renewals may
#: fail.
RENEWALS = 3
#: A request without an answer is given up after this time (earlier if a deadline is near).
REQUEST_S = 5.0
#: Minimum time for a request: with less, no answer could arrive.
REQUEST_S_MIN = 0.02
#: A client that waits without a time-out gives up on a silent store after this time.
SILENCE_S = 10.0
#: The undo of an abandoned claim is awaited for this time; then the renewer repeats the undo.
UNDO_S = 0.1
#: A request of an `acquire` may exceed its time-out by at most this time. The withdrawal may take
#: this time as well. So the acquire ends within a quarter of a second after its time-out.
GRACE_S = 0.1


def fits(capacity: int, used: int, weight: int) -> bool:
    """Return True if a claim of this weight fits; ``used``: the weight of the claims ahead."""
    return used + weight <= capacity


def margin(lease: float) -> float:
    """Return how much earlier than the store a client regards a lease as expired.

    >>> round(margin(30.0), 3)
    0.302
    """
    return lease * RATE_ERROR + MARGIN_S


def deadline(sent: float, lease: float) -> float:
    """Return the client's deadline for a lease of this length that was requested at ``sent``.

    >>> round(deadline(100.0, 10.0), 3)
    109.898
    """
    return sent + lease - lease * RATE_ERROR - MARGIN_S


def renew_every(ttl: float) -> float:
    """Return the interval of renewals, a third of the ttl: two renewals may fail."""
    return ttl / RENEWALS


def nap(retry_in: float, left: float) -> float:
    """Return the seconds that a waiter sleeps; ``left``: the seconds until its time-out."""
    return max(ASK_AGAIN_S_MIN, min(retry_in, NAP_S_MAX, left))


def back_off(attempt: int, jitter: float, longest: float) -> float:
    """Return the pause before the next attempt: 20 ms, doubled per failure, half of it random.

    >>> [round(back_off(n, 1.0, 1.0), 2) for n in range(7)]
    [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0]
    """
    full = min(longest, 0.02 * 2.0 ** min(attempt, 12))
    return full * (0.5 + 0.5 * jitter)
