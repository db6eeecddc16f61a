"""Tokens: the values of keys, made from the secret id of a claim, in the formats of lock libraries.

These libraries compare whole tokens and don't interpret them, so any unique token works. In one
format the time follows at the end. The *mark* is the token without that time; it is computed from
the id. So the id is enough to recognise the token of a claim. If a request is sent again at a later
time, the server finds that the key belongs to this claim already.
"""

from __future__ import annotations

import uuid
from base64 import b64encode
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

#: The length of a UUID as text, in bytes.
_UUID_BYTES = 36


class Shape(NamedTuple):
    """A format of tokens."""

    #: Converts the 16 bytes of an id to the mark.
    mark: Callable[[bytes], bytes]
    #: True if the time at which the key was taken follows the mark.
    timed: bool = False

    def mark_in(self, token: bytes) -> bytes:
        """Return the mark of a token; the whole token if it isn't in this format."""
        if not self.timed or token[_UUID_BYTES : _UUID_BYTES + 1] != b"_":
            return token
        return token[:_UUID_BYTES]

    def token(self, mark: bytes, now: float) -> bytes:
        """Return the whole token of a claim that takes the key at this time."""
        if not self.timed:
            return mark
        when = datetime.fromtimestamp(now).astimezone()
        return mark + when.strftime("_%Y%m%d%H%M%S").encode() + b"%03d" % (when.microsecond // 1000)


def _uuid(secret: bytes) -> bytes:
    """Return the secret as a random UUID.

    >>> _uuid(bytes(16))
    b'00000000-0000-4000-8000-000000000000'
    """
    return str(uuid.UUID(bytes=secret, version=4)).encode()


def _base64(secret: bytes) -> bytes:
    """Return the secret as 24 characters.

    >>> _base64(bytes(16))
    b'AAAAAAAAAAAAAAAAAAAAAA=='
    """
    return b64encode(secret)


def _full_base64(secret: bytes) -> bytes:
    """Return 24 characters without padding."""
    return b64encode(secret + sha256(secret).digest()[:2])


def _hex(secret: bytes) -> bytes:
    """Return 32 hexadecimal digits."""
    return secret.hex().encode()


SHAPES = {
    "hex": Shape(_hex),
    "uuid": Shape(_uuid),
    "base64": Shape(_base64),
    "base64-18": Shape(_full_base64),
    "uuid-timestamp": Shape(_uuid, timed=True),
}
