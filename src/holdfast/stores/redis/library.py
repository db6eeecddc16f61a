"""The Lua scripts: read from their files, and the commands that load them.

A server from 7.0 gets the text unchanged. An older server can't read the first line (``#!lua``),
so it gets the text without that line.
"""

from __future__ import annotations

import os
import re
from hashlib import sha1
from typing import NamedTuple

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lua")
_COMMENT = re.compile(rb"^[ ]*--(?!@).*\n|[ ]+$", re.MULTILINE)
#: Before 7.0, a server that is out of memory refuses a script's first write, but not its further
#: writes. So this line makes a first write that needs no memory and changes nothing.
_WRITTEN = b"redis.pcall('HDEL', KEYS[1], '')\n"
_INCLUDE = re.compile(rb"^--@ (\S+)\n", re.MULTILINE)


class Script(NamedTuple):
    """One script: its name, the text that is loaded, and the hash of the text, for EVALSHA.

    ``plain`` and ``plain_sha`` are the text and the hash for servers before 7.0, which can't read
    the first line (``#!lua``).
    """

    name: str
    text: bytes
    sha: bytes
    plain: bytes
    plain_sha: bytes


def tail(tag: bytes) -> bytes:
    r"""One argument of a command, packed.

    >>> tail(b"7f")
    b'$2\r\n7f\r\n'
    """
    return b"$%d\r\n%b\r\n" % (len(tag), tag)


def packed(*args: bytes) -> bytes:
    r"""A whole command, packed.

    >>> packed(b"PING")
    b'*1\r\n$4\r\nPING\r\n'
    """
    return b"*%d\r\n" % len(args) + b"".join(map(tail, args))


def _read(folder: str, file: str) -> bytes:
    # Without pathlib, because that would add 2 ms to the start of every program.
    with open(os.path.join(folder, file), "rb") as lua:
        return _COMMENT.sub(b"", lua.read())


def assembled(name: str, folder: str = _FOLDER) -> bytes:
    """The text of a script without its comments, with the text of the files that it includes."""
    return _included(folder, name + ".lua").strip()


def _included(folder: str, file: str) -> bytes:
    text = _read(folder, file)
    return _INCLUDE.sub(lambda found: _included(folder, found[1].decode()), text)


def script_of(name: str, text: bytes) -> Script:
    """A script from its text."""
    first, line, rest = text.partition(b"\n")
    plain = text
    if line and first.startswith(b"#!"):
        plain = _WRITTEN + rest if b"allow-oom" in first else rest
    return Script(name, text, _sha(text), plain, _sha(plain))


def _sha(text: bytes) -> bytes:
    return sha1(text, usedforsecurity=False).hexdigest().encode()


_NAMES = (
    "join",
    "renew",
    "stand",
    "leave",
    "resize",
    "inspect",
    "recovery",
    "reclaim",
    "join_free",
    "leave_all",
)
SCRIPTS = tuple(script_of(name, assembled(name)) for name in _NAMES)
JOIN, RENEW, STAND, LEAVE, RESIZE, INSPECT, RECOVERY, RECLAIM, JOIN_FREE, LEAVE_ALL = SCRIPTS

_OF_QUEUES = (
    "queue_put",
    "queue_take",
    "queue_settle",
    "queue_extend",
    "queue_back",
    "queue_wake",
    "queue_pace",
    "queue_look",
    "queue_mend",
    "queue_next",
)
#: The scripts of serial queues.
QUEUE_SCRIPTS = tuple(script_of(name, assembled(name)) for name in _OF_QUEUES)
PUT, TAKE, SETTLE, EXTEND, BACK, WAKE, PACE, LOOK, MEND, NEXT = QUEUE_SCRIPTS

_OF_VALUES = ("begin", "finish", "abandon", "prolong", "invalidate", "look", "tally")
#: The scripts of refresh guards.
VALUE_SCRIPTS = tuple(script_of(name, assembled(f"value_{name}")) for name in _OF_VALUES)
BEGIN, FINISH, ABANDON, PROLONG, INVALIDATE, VIEW, TALLY = VALUE_SCRIPTS
ALL_SCRIPTS = SCRIPTS + QUEUE_SCRIPTS + VALUE_SCRIPTS


def load_command(script: Script, old: bool = False) -> bytes:
    """SCRIPT LOAD of one script, packed; ``old``: for a server before 7.0."""
    return packed(b"SCRIPT", b"LOAD", script.plain if old else script.text)
