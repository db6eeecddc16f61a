"""What happens in the child of a fork: every client lets go of what is its parent's.

One hook for the process, registered with the first client. The epoch moves in the child, and
that alone makes every hold of the parent a lost one there.
"""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakSet

_clients: WeakSet[Any] = WeakSet()
_epoch = 0
_hooked = False


def epoch() -> int:
    """A number that is another one in the child of a fork."""
    return _epoch


def register(client: Any) -> None:
    """Have ``client._forked()`` called in the child of a fork."""
    global _hooked
    if not _hooked and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after)
        _hooked = True
    _clients.add(client)


def _after() -> None:
    global _epoch
    _epoch += 1
    for client in list(_clients):
        client._forked()
