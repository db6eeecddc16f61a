"""What the scripts answer, as the nouns of the contract.

A reply is what a connection read: an int, bytes, a list of such, None, or a `ServerSaid`. On a
shared connection the port takes the tag off first: it hands on the second element of the list.
Every function here raises the complaint for a `ServerSaid`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.model import (
    Claim,
    Joined,
    Keep,
    LineRecord,
    Mismatch,
    Standing,
)
from ...errors import StoreUnavailable

Reply = Any


class Barred(StoreUnavailable):
    """The guard lets nobody in: this server isn't the one whose record is in the store."""


def joined(reply: Reply, claim: Claim, label: str) -> Joined:
    """The answer to a join; raises `Barred` if the guard says no."""
    ...


def stood(reply: Reply, keep: Keep, label: str) -> Standing:
    """The answer to a stand."""
    ...


def kept(reply: Reply, keeps: Sequence[Keep], label: str) -> list[Standing | Exception | None]:
    """The answers to the keeps of one call; None: ask with stand."""
    ...


def left(reply: Reply, label: str) -> bool:
    """The answer to a leave: was the claim there?"""
    ...


def resized(reply: Reply, label: str) -> int | Mismatch | None:
    """The answer to a resize."""
    ...


def looked(reply: Reply, name: str, label: str) -> LineRecord | None:
    """The answer to an inspect; None if nobody is there."""
    ...


def poked(message: bytes) -> tuple[str, int] | None:
    """Claim id and fence of a poke as it was published; None if it is something else."""
    ...
