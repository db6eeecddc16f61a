"""Clean-up in the child of a fork: the child drops everything that belongs to the parent.

The process has one hook, which is registered with the first client. A part of a client that is
registered here can outlive the client, because holds and locks refer to it.
"""

from __future__ import annotations

import os
import sys
from typing import Any
from weakref import WeakSet

_parts: WeakSet[Any] = WeakSet()
_epoch = 0
_hooked = False


def epoch() -> int:
    """Return a number that differs in the child of a fork."""
    return _epoch


def register(part: Any) -> None:
    """Call ``part.forked()`` in the child of each fork, unless the part was garbage-collected."""
    global _hooked
    if not _hooked and sys.platform != "win32" and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after)
        _hooked = True
    _parts.add(part)


def _after() -> None:
    global _epoch
    _epoch += 1
    for part in list(_parts):
        part.forked()
