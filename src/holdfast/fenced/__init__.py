"""Fenced writers: ready-made writers for files, SQL and Redis that check a fence before they write.

A lease can end while its holder pauses: the process is stopped, the machine is suspended, a packet
waits in a queue. When the holder continues, it still relies on its lock and writes, although
another process holds the lock now. No lock can prevent that. Only the resource can: it remembers
the greatest fence that it has accepted, and refuses a smaller one. This package has writers for
three such resources:

* :class:`FencedFile`: append to a file, or replace it, through a fenced writer.
* :class:`SqlFence`: a row in your database, checked and advanced in your own transaction; and
  :func:`check_rowcount`, if you keep the fence in the row that you change.
* :class:`FencedRedis` and :class:`AsyncFencedRedis`: a key of your Redis, written by a script that
  checks first.

Each writer takes a hold, or the bare integer ``hold.fence`` (in a command under ``holdfast run``:
``int(os.environ["HOLDFAST_FENCE"])``). A hold is the better choice, because the writer first checks
that the hold is still valid. If the resource refuses a write, the writer raises
:class:`holdfast.errors.FenceRejected`.

All fences of one fenced resource must come from one name in one store. They rise with every grant,
so the later of two exclusive holders has the greater fence. Holders that share a name (readers, the
permits of a semaphore) have different fences, so the resource would refuse some of their writes.

The idea is the sequencer of M. Burrows, "The Chubby lock service for loosely-coupled distributed
systems" (OSDI 2006), section 2.4. M. Kleppmann, "How to do distributed locking" (2016), explains
why a weaker check isn't enough.
"""

import os
from typing import TYPE_CHECKING, Any

from .fence import Fence, HoldLike
from .redis import AsyncFencedRedis, FencedRedis
from .sql import SqlFence, check_rowcount

if TYPE_CHECKING:
    from .file import FencedFile

__all__ = [
    "AsyncFencedRedis",
    "Fence",
    "FencedFile",
    "FencedRedis",
    "HoldLike",
    "SqlFence",
    "check_rowcount",
]


def __getattr__(name: str) -> Any:
    if name != "FencedFile":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not hasattr(os, "fork"):
        raise ImportError("FencedFile needs a POSIX system (fcntl)", name="fcntl")
    from .file import FencedFile

    globals()[name] = FencedFile
    return FencedFile
