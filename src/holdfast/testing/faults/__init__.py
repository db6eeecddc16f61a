"""Fault tools: strike a process, a verb, a connection or a disk exactly where you choose.

* :class:`Subject`: a process that runs one function, and is stopped, continued, interrupted or
  killed where it says that it is; :class:`Fork`: the child of a fork of this one.
* :func:`aim`: a hook at every step of every verb that a client sends to its store: cancel, raise
  or wait between sending and reply.
* :class:`Strike`: an interrupt at each point, in turn, at which the interpreter looks for signals.
* :class:`Proxy`: loses, keeps back or resets exactly the chosen request or reply of a TCP
  connection, Redis's for example.
* :class:`SmallDisk`, :func:`no_file_longer`, :func:`delete`: full disks and files that vanish.
* :func:`dice`: random numbers that say their seed.

``docs/faults.md`` shows each at work.
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
