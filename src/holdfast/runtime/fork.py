"""Clean-up in the child of a fork: it drops all that belongs to the parent.

One hook for the process, registered with the first client. What is registered is the part that
holds and locks refer to, as they may live longer than their client.
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
    """A number that is another one in the child of a fork."""
    return _epoch


def register(part: Any) -> None:
    """Have ``part.forked()`` called in the child of a fork, as long as anybody has this part."""
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
