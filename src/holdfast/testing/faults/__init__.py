"""Fault tools: inject a fault into a process, a verb, a connection or a disk at a chosen point.

* :class:`Subject`: a process that runs one function and reports its progress, so that a test can
  stop, continue, interrupt or kill it at a known point. :class:`Fork`: the child of a fork of this
  process.
* :func:`aim`: a hook at every step of every verb that a client sends to its store: cancel, raise
  or wait between request and reply.
* :class:`Strike`: an interrupt at one chosen point of the code at which Python checks for signals.
* :class:`Proxy`: a TCP proxy that loses, holds or resets exactly the chosen request or reply, for
  example of Redis.
* :class:`SmallDisk`, :func:`no_file_longer`, :func:`delete`: full disks and files that vanish.
* :func:`dice`: random numbers with a printed seed.

``docs/faults.md`` shows examples of each.
"""

from __future__ import annotations

from .aim import Hook, Step, aim
from .dice import dice
from .disk import NoSmallDisk, SmallDisk, delete, no_file_longer
from .proxy import (
    DROP_PUSH,
    DROP_REPLY,
    DROP_REQUEST,
    HOLD_END,
    HOLD_REPLY,
    HOLD_REQUEST,
    RESET_REPLY,
    RESET_REQUEST,
    Armed,
    Fault,
    Proxy,
    delay_reply,
    delay_request,
)
from .strike import Strike, interrupt, points
from .subject import Fork, Subject, SubjectGone
from .wire import CHUNKS, LINES, MYSQL, RESP, Splitter, Wire

__all__ = [
    "CHUNKS",
    "DROP_PUSH",
    "DROP_REPLY",
    "DROP_REQUEST",
    "HOLD_END",
    "HOLD_REPLY",
    "HOLD_REQUEST",
    "LINES",
    "MYSQL",
    "RESET_REPLY",
    "RESET_REQUEST",
    "RESP",
    "Armed",
    "Fault",
    "Fork",
    "Hook",
    "NoSmallDisk",
    "Proxy",
    "SmallDisk",
    "Splitter",
    "Step",
    "Strike",
    "Subject",
    "SubjectGone",
    "Wire",
    "aim",
    "delay_reply",
    "delay_request",
    "delete",
    "dice",
    "interrupt",
    "no_file_longer",
    "points",
]
