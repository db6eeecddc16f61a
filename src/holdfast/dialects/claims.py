"""Numbers of claims where there are no fences, and the display of tokens.

A token proves who holds, so it is never shown: people see a digest of it, and the number that
names a claim (to break it, for instance) is made of it, too.
"""

from __future__ import annotations

from hashlib import sha256

#: Bytes of a digest that make a number; it then fits wherever a fence does.
_NUMBER_BYTES = 6
_SHOWN = 10


def number_of(token: bytes) -> int:
    """The number that names the claim with this token; never 0, and no fence.

    >>> number_of(b"x") == number_of(b"x") > 0
    True
    """
    return int.from_bytes(sha256(token).digest()[:_NUMBER_BYTES], "big") or 1


def shown(token: bytes) -> str:
    """How the holder with this token is shown to people.

    >>> shown(b"secret")
    'token#2bb80d537b'
    """
    return "token#" + sha256(token).hexdigest()[:_SHOWN]
