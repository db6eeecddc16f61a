"""``holdfast guard invalidate``: remove values, so that they are computed again."""

from __future__ import annotations

import argparse

from ...core import checks
from ...core.guard.codec import ELSEWHERE
from ...core.guard.model import ENTRIES_MAX, KEY_BYTES_MAX, Entry
from ...core.guard.ports import guards_of
from ...core.policy import REQUEST_S
from ...errors import ConfigError
from ...runtime.blocking import run_sync
from ...sync import Client
from .. import origin
from ..text import count, visible

#: The exit status if there was no value.
NOT_DONE = 1


def invalidate(options: argparse.Namespace) -> int:
    """Invalidate values; return 0 if there was at least one, else 1."""
    keys = [checks.text("key", key, KEY_BYTES_MAX, 0) for key in options.keys or [""]]
    entries = [Entry(options.name, key) for key in keys]
    done = 0
    with Client(options.url) as client:
        origin.tell(options, client.url)
        guards = guards_of(client._ctx.store)
        for start in range(0, len(entries), ENTRIES_MAX):
            some = entries[start : start + ENTRIES_MAX]
            values = run_sync(guards.read(some, REQUEST_S))
            if any(value is not None and value.data == ELSEWHERE for value in values):
                raise ConfigError(
                    f"the values of {options.name} are in an external cache, which this command "
                    "can't reach: call the guard's invalidate() in a program that uses the cache"
                )
            done += sum(run_sync(guards.invalidate(some, REQUEST_S)))
    print(f"{count(done, 'value')} of {visible(options.name)} invalidated")
    return 0 if done else NOT_DONE
