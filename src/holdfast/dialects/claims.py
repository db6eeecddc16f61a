"""Numbers for claims without a fence, and digests of tokens for display.

A token proves which claim holds the lock, so it is never shown. Output contains a digest of it. The
number that names a claim (to break it, for example) is a digest of it too.
"""

from __future__ import annotations

from hashlib import sha256

#: Bytes of a digest in a number, which then fits in the same fields as a fence.
_NUMBER_BYTES = 6
_SHOWN = 10


def number_of(token: bytes) -> int:
    """The number that names the claim with this token; never 0, and no fence.

    >>> number_of(b"x") == number_of(b"x") > 0
    True
    """
    return int.from_bytes(sha256(token).digest()[:_NUMBER_BYTES], "big") or 1


def shown(token: bytes) -> str:
    """Return the text that is displayed for the holder with this token.

    >>> shown(b"secret")
    'token#2bb80d537b'
    """
    return "token#" + sha256(token).hexdigest()[:_SHOWN]
