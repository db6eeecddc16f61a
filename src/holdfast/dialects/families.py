"""The families of lock formats that can occur on one Redis, and the refusal to mix them.

A lock is safe only if all its users agree on the format of its key. So a dialect that finds the
format of another family at a key doesn't change the key. It raises an error that names the family.
"""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ConfigError


class Family(NamedTuple):
    """A format of keys in words, and the scheme of URLs to use for it."""

    words: str
    use: str


#: The word that ``lua/family.lua`` returns for a key -> the family. The script also returns the
#: types of Redis that no lock has; these are not listed here.
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
    "holdfast": Family("a line of holdfast (a hash)", "redis://"),
}


def refusal(name: str, found: str, mine: str, label: str) -> ConfigError:
    """Return the error for a name whose key has the format ``found`` instead of ``mine``."""
    ours = FAMILIES[mine].words
    theirs = FAMILIES.get(found)
    if theirs is None:
        return ConfigError(
            f"{name!r} can't be locked at {label}: its key has the Redis type {found} and isn't a "
            f"lock; it must be {ours}. Use another name or another prefix"
        )
    return ConfigError(
        f"{name!r} can't be locked at {label}: its key is {theirs.words}, but must be "
        f"{ours}. Two families on one key don't exclude each other: use {theirs.use}, or "
        "another name or prefix"
    )
