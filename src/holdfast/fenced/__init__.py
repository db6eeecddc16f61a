"""Fenced writers: small ready-made checks, so that a fence is checked where it counts.

A lease can end while its holder is asleep: the process is stopped, the machine is suspended, a
packet sits in a queue. When it wakes it believes in its lock and writes, although somebody else
holds it now. No lock can prevent that; only the thing that is written to can, by remembering the
greatest fence that it has accepted and refusing a smaller one. Three such things are here:

* :class:`FencedFile`: append to a file, or replace it, through a guard.
* :class:`SqlFence`: a row in your database, checked and advanced in your own transaction; and
  :func:`check_rowcount` for those who keep the fence in the row that they change.
* :class:`FencedRedis` and :class:`AsyncFencedRedis`: a key of your Redis, written by a script that
  checks first.

Each takes a hold, or the bare integer ``hold.fence`` (in a command under ``holdfast run``:
``int(os.environ["HOLDFAST_FENCE"])``). A hold is the better choice, because it is asked first
whether it is still held. A refusal is :class:`holdfast.errors.FenceRejected`.

What a guard relies on: fences of one name, from one store. They rise with every grant, so of two
exclusive holders the later one has the greater. Holders that share a name (readers, the permits
of a semaphore) have different fences and would refuse each other.

The idea is the sequencer of M. Burrows, "The Chubby lock service for loosely-coupled distributed
systems" (OSDI 2006), section 2.4; why nothing less will do is argued by M. Kleppmann, "How to do
distributed locking" (2016).
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
