"""The verbs as requests: Lua scripts, and ready bytes that ask for them.

A `Call` is a whole EVALSHA command, packed, but for its last argument, the *tag*::

    call.head + UNTAGGED        a connection that nobody else uses: the bare reply
    call.head + tail(b"7f")     a shared connection: the reply is [b"7f", reply], always

so that a reply can't be taken for somebody else's. Error replies carry no tag: match those by
their order. `replies` turns what comes back into the nouns of the contract.

What claims of one `Spec` share is packed once; a join is then two bytes strings put together.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ...core.model import Claim, Keep, Leave, Spec
from ...core.policy import PATIENCE_S, TOMB_S
from ...errors import ConfigError
from .keys import PREFIX, bucket_of, keys_of

#: The last argument where no tag is wanted.
UNTAGGED = b"$0\r\n\r\n"
#: The most claims in one call of keep.
KEEP_MAX = 100
_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lua")
_SPECS_MAX = 1024
_ID_BYTES = 32


class Script(NamedTuple):
    """One script: its text as it is loaded, and the name that EVALSHA knows it by.

    ``plain`` and ``plain_sha`` are the same without the first line (``#!lua``), which servers
    before 7.0 can't read.
    """

    name: str
    text: bytes
    sha: bytes
    plain: bytes
    plain_sha: bytes


class Call(NamedTuple):
    """One request: all of its bytes but the last argument, the tag."""

    script: Script
    bucket: int
    head: bytes

    def for_old(self) -> Call:
        """The same for a server before 7.0 (see `Script`)."""
        script = self.script
        return self._replace(head=self.head.replace(script.sha, script.plain_sha, 1))


class Batch(NamedTuple):
    """Some keeps of a batch that go in one call; ``places`` are their indexes."""

    places: list[int]
    call: Call


def tail(tag: bytes) -> bytes:
    r"""The last argument of a call on a shared connection.

    >>> tail(b"7f")
    b'$2\r\n7f\r\n'
    """
    return b"$%d\r\n%b\r\n" % (len(tag), tag)


def packed(*args: bytes) -> bytes:
    r"""A whole command.

    >>> packed(b"PING")
    b'*1\r\n$4\r\nPING\r\n'
    """
    return b"*%d\r\n" % len(args) + b"".join(map(tail, args))


def load_command(script: Script, old: bool = False) -> bytes:
    """SCRIPT LOAD of one script, packed; ``old``: for a server before 7.0."""
    return packed(b"SCRIPT", b"LOAD", script.plain if old else script.text)


class Requests:
    """Builds calls for one store: its prefix of keys, and how long a waiter lives unasked.

    Every method may be called from any thread. A name, owner or note that is no text in UTF-8
    raises UnicodeEncodeError.
    """

    def __init__(self, prefix: str = PREFIX, patience: float = PATIENCE_S) -> None:
        self.prefix = prefix
        self.patience = patience

    def join(self, claim: Claim, wait: bool, address: bytes = b"", run_id: bytes = b"") -> Call:
        """Enter the line. ``address``: the channel to poke, empty while nobody listens there.
        ``run_id``: of the server that this connection leads to; empty turns the guard off.
        Answer: `replies.joined`."""
        ...

    def keep(self, keeps: Sequence[Keep]) -> Call:
        """Renew claims that are held, at most `KEEP_MAX`; in a cluster all of one bucket.
        Answer: `replies.kept`. Use `batches` for any that come."""
        ...

    def batches(
        self, keeps: Sequence[Keep], among: Iterable[int], by_bucket: bool
    ) -> tuple[list[Batch], dict[int, Exception]]:
        """Plain renewals of held claims as calls, and what can't be packed.

        ``among``: the indexes of the keeps to be packed. ``by_bucket``: for a cluster, where a
        call is of one bucket.
        """
        ...

    def stand(self, keep: Keep, address: bytes = b"") -> Call:
        """Everything that a single keep may be: of a waiter, a downgrade, an adoption, a detach.
        An empty address leaves the one that the claim has. Answer: `replies.stood`."""
        ...

    def leave(self, leave: Leave) -> Call:
        """Withdraw, release or break. Answer: `replies.left`."""
        ...

    def resize(self, name: str, capacity: int) -> Call:
        """Change a line's capacity. Answer: `replies.resized`."""
        ...

    def inspect(self, name: str) -> Call:
        """Look at one line. Answer: `replies.looked`."""
        ...
