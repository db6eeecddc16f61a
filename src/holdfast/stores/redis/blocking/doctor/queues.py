"""What serial queues need besides: whoever has only locks can do without."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .....core.finding import Finding, Level
from ...complaints import rules
from ...library import QUEUE_SCRIPTS, SCRIPTS
from . import rights
from .rights import KEY
from .visit import Visit, well

#: How each command is tried; see `rights`.
TRIALS: dict[str, tuple[bytes, ...]] = {
    # It is no number: that is only noticed by the command itself, after the rights.
    "hincrby": (KEY, b"x", b"y"),
    "hscan": (KEY, b"0"),
    "persist": (KEY,),
    "unlink": (KEY,),
    "zcard": (KEY,),
    "zcount": (KEY, b"0", b"0"),
    "zmscore": (KEY, b"x"),
    "zpopmin": (KEY,),
    "zrange": (KEY, b"0", b"0"),
    "zrangebyscore": (KEY, b"0", b"0"),
    "zrem": (KEY, b"x"),
    "zrevrange": (KEY, b"0", b"0"),
    "zscan": (KEY, b"0"),
}
#: What is handed to a function of the scripts, which calls it.
_HANDED = re.compile(rb"many\(\s*'(\w+)'")


def needed() -> frozenset[str]:
    """Every command that only the scripts of queues call."""
    handed = {name.decode().lower() for one in QUEUE_SCRIPTS for name in _HANDED.findall(one.text)}
    return frozenset((rights.called_by(QUEUE_SCRIPTS) | handed) - rights.called_by(SCRIPTS))


def examine(visit: Visit) -> Iterator[Finding]:
    """May the user call what queues need?"""
    refused = rights.refusals(visit, TRIALS)
    denied, gone = rights.forbidden(refused), rights.absent(refused)
    for names, who, remedy in (
        (
            denied,
            f"{visit.user} may not call",
            f"{rules(visit.user_name, '{}')}, if there are to be queues",
        ),
        (gone, "there is no command", "is it a proxy, or was {} renamed (rename-command)?"),
    ):
        if names:
            every = ", ".join(map(rights.shown, names))
            words = " ".join(f"+{name}" if names is denied else name.upper() for name in names)
            yield Finding(
                Level.WARN,
                "queues",
                f"{who} {every}: there can be no serial queues, only locks",
                remedy.replace("{}", words),
            )
    if not denied and not gone:
        yield well("queues", f"{visit.user} may do all that serial queues need")
