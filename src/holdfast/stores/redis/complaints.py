"""What the server says when it refuses, and what that means for whoever asked.

An error reply is a value, `ServerSaid`, never raised by a port: one reply of a pipeline may be an
error and the others not. A port looks at ``said.code`` for what it can put right itself (see
the sets below); everything else becomes the right exception here, in `complaint`.
"""

from __future__ import annotations

from ...errors import ConfigError, HoldfastError, StoreUnavailable

#: The script isn't loaded: load all of them and send the call again, on the same connection.
NOSCRIPT = "NOSCRIPT"
#: Another node of the cluster has the slot: for good, or for this one request.
MOVED, ASK = "MOVED", "ASK"
#: This server is the wrong one: connect anew, to whichever is the master now.
DEMOTED = frozenset({"READONLY", "MASTERDOWN"})
#: The server will answer later: ask again within the time that there is.
LATER = frozenset({"LOADING", "TRYAGAIN", "CLUSTERDOWN", "BUSY"})


class ServerSaid(Exception):  # noqa: N818 -- it is what was said, good or bad
    """An error reply, as a value: ``code`` is its first word, ``text`` the rest."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.code} {self.text}".rstrip()


def said(line: str) -> ServerSaid:
    """The error reply of a line without its ``-``, as the wire has it.

    >>> said("MOVED 3999 127.0.0.1:6381").code
    'MOVED'
    """
    code, _, text = line.partition(" ")
    return ServerSaid(code, text)


def retryable(error: ServerSaid) -> bool:
    """Will the same request be answered later, or by another server?"""
    return error.code in DEMOTED or error.code in LATER or error.code in (MOVED, ASK)


def complaint(error: ServerSaid, label: str) -> HoldfastError:
    """The exception for an error reply of the server ``label``: what it means, what to do."""
    if retryable(error):
        return StoreUnavailable(f"{label} can't answer now: {error}")
    return ConfigError(f"{label} refused the request: {error}")
