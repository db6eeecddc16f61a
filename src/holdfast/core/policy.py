"""The arithmetic of leases, as pure functions: grants, deadlines, pauses.

Two rules carry the safety of everything above:

* A deadline counts from *before* the request was sent, never from its reply, less a margin for
  clocks that run at different rates. So the store cannot expire what we still believe.
* A push is no lease: it makes a waiter a holder without lengthening anything, so its deadline
  is the one that the last answered request already gave, the waiter TTL.
"""

from __future__ import annotations

#: Seconds that a waiting claim lives without being kept: the price of a dead waiter.
PATIENCE_S = 3.0
#: A waiter asks again after at most this part of its waiter TTL, wake-up or no wake-up...
ASK_AGAIN_S_MAX = PATIENCE_S / 3
#: ...or at a store that says so after this one, and never later: so it asks twice within its
#: waiter TTL, and a wake-up that comes meanwhile may still be believed.
NAP_S_MAX = PATIENCE_S * 0.4
#: A tombstone lives this long and the claim's ttl: no request is under way for longer.
TOMB_S = 30.0
#: Never ask more often than this, whatever a store answers.
ASK_AGAIN_S_MIN = 0.002
#: Two clocks may differ in rate by this much...
RATE_ERROR = 0.01
#: ...and a request may be read this long after it was stamped.
MARGIN_S = 0.002
#: A lease is renewed after this part of it: so two renewals may fail.
RENEWALS = 3
#: A request that nobody answers is given up after this long (sooner if a deadline is near).
REQUEST_S = 5.0
#: No request is given less, or it could not be answered at all.
REQUEST_S_MIN = 0.02
#: A client that waits without a time-out gives up on a silent store after this long.
SILENCE_S = 10.0
#: The undo of an abandoned claim is waited for this long; after that the renewer continues with it.
UNDO_S = 0.1
#: No request of an `acquire` may be given more than this beyond its time-out; to withdraw it may
#: take as long again, so that it has ended within a quarter of a second.
GRACE_S = 0.1


def fits(capacity: int, used: int, weight: int) -> bool:
    """May a claim of this weight be held together with what is held ahead of it?"""
    return used + weight <= capacity


def margin(lease: float) -> float:
    """How much earlier than the store we consider a lease of so many seconds to be over.

    >>> round(margin(30.0), 3)
    0.302
    """
    return lease * RATE_ERROR + MARGIN_S


def deadline(sent: float, lease: float) -> float:
    """Until when a lease may be believed that was asked for at ``sent`` and granted later.

    >>> round(deadline(100.0, 10.0), 3)
    109.898
    """
    return sent + lease - lease * RATE_ERROR - MARGIN_S


def renew_every(ttl: float) -> float:
    """A held claim is renewed every third of its ttl: two renewals may fail."""
    return ttl / RENEWALS


def nap(retry_in: float, left: float) -> float:
    """How long a waiter sleeps before it asks again, with ``left`` seconds of its own to go."""
    return max(ASK_AGAIN_S_MIN, min(retry_in, NAP_S_MAX, left))


def back_off(attempt: int, jitter: float, longest: float) -> float:
    """Seconds until the next attempt after so many failures: 20 ms doubling, half of it random.

    >>> [round(back_off(n, 1.0, 1.0), 2) for n in range(7)]
    [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0]
    """
    full = min(longest, 0.02 * 2.0 ** min(attempt, 12))
    return full * (0.5 + 0.5 * jitter)
