"""The families of lock formats that can occur on one Redis, and the refusal to mix them.

A lock is safe only if all its users agree on the format of its key. So a dialect that finds another
family at a key raises an error that names the family, and doesn't change the key.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ConfigError


class Family(NamedTuple):
    """A format of keys in words, and the scheme of URLs to use for it."""

    words: str
    use: str


#: By the word that ``lua/family.lua`` returns. It also returns types of Redis that are no lock.
FAMILIES = {
    "plain": Family("a plain lock (a token as a string)", "redis+plain://"),
    "timestamp": Family(
        "a timestamp lock (the time of its expiry as a string)", "redis+timestamp://"
    ),
    "redisson": Family("a lock of Redisson (a hash of holders)", "redis+redisson://"),
    "redisson-rw": Family(
        "a read-write lock of Redisson (a hash with a mode)", "redis+redisson://"
    ),
    "redisson-permits": Family("permits of Redisson (a number)", "redis+redisson://"),
    "holdfast": Family("a line of holdfast's own (a hash)", "redis://"),
}


def refusal(name: str, found: str, mine: str, label: str) -> ConfigError:
    """The error for a name whose key is of the family ``found`` instead of ``mine``."""
    ours = FAMILIES[mine].words
    theirs = FAMILIES.get(found)
    if theirs is None:
        return ConfigError(
            f"{name!r} can't be locked at {label}: its key is a {found} of Redis and no lock, but "
            f"it must be {ours}. Use another name or another prefix"
        )
    return ConfigError(
        f"{name!r} can't be locked at {label}: its key is {theirs.words}, but must be "
        f"{ours}. Two families on one key don't exclude each other: use {theirs.use}, or "
        "another name or prefix"
    )
