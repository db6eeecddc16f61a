"""Numbers for claims without a fence, and digests of tokens for display.

A token proves which claim holds the lock, so no output contains a token, only its digest. The
number that names a claim, for example to break its hold, is also a digest of the token.
"""

from __future__ import annotations

from hashlib import sha256

#: Bytes of the digest in a number. A number of this size fits in the same fields as a fence.
_NUMBER_BYTES = 6
_SHOWN = 10


def number_of(token: bytes) -> int:
    """Return the number that names the claim with this token; it is never 0, and it isn't a fence.

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
