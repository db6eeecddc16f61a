"""Clean-up in the child of a fork: it drops everything that belongs to the parent.

There is one hook for the process, registered with the first client. The registered parts can
outlive their client, because holds and locks refer to them.
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
    """A number that differs in the child of a fork."""
    return _epoch


def register(part: Any) -> None:
    """Have ``part.forked()`` called in the child of a fork, while the part is referenced."""
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
