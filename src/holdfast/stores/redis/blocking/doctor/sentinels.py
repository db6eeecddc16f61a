"""Checks if the sentinels answer, and if they name the same primary."""

from __future__ import annotations

from collections.abc import Iterator

from .....core.finding import Finding, fail, ok, warn
from .....errors import ConfigError, HoldfastError
from .....runtime.blocking import boottime
from ...config import Settings
from ...library import packed
from ...topology import Place, Sentinels, shown
from ..dial import Dialler
from ..link import Link
from ..sentinel import LOCKED_OUT

#: Maximum seconds to wait for each sentinel.
WITHIN_S = 1.0
_LOGIN = "give `sentinel_password=` (and `sentinel_username=`, if they have users) in the URL"


def examine(watch: Sentinels) -> Iterator[Finding]:
    """Ask each sentinel for the primary, and compare the answers."""
    named: dict[str, list[str]] = {}
    for place in watch.places:
        try:
            primary = _asked(watch, place)
        except (HoldfastError, OSError) as wrong:
            yield warn(f"{shown(place)}: {wrong}", _remedy(wrong), "sentinel")
            continue
        if primary is None:
            text = f"{shown(place)} doesn't know {watch.service!r}"
            yield warn(text, "find the name that it uses (SENTINEL MASTERS)", "sentinel")
        else:
            named.setdefault(shown(primary), []).append(shown(place))
    if not named:
        text = f"none of {len(watch.places)} names a primary of {watch.service!r}"
        yield fail(text, "are the addresses and the name right?")
    elif len(named) > 1:
        told = "; ".join(f"{', '.join(by)}: {primary}" for primary, by in named.items())
        text = f"they name different primaries ({told})"
        yield warn(text, "wait, if a fail-over is under way")
    else:
        ((primary_shown, by),) = named.items()
        yield ok(f"{len(by)} of {len(watch.places)} name {primary_shown}")


def _remedy(wrong: Exception) -> str:
    """The remedy for a sentinel that didn't name a primary."""
    if LOCKED_OUT.search(str(wrong)):
        return f"{_LOGIN}; it differs from that of the servers"
    if isinstance(wrong, ConfigError):
        return "correct the part that the error names, in the URL or at the sentinel"
    return "start it again, or remove it from the URL"


def _asked(watch: Sentinels, place: Place) -> Place | None:
    """The primary that this sentinel names; None if it names none."""
    arguments = {**watch.arguments, "host": place[0], "port": place[1]}
    kind = "tls" if arguments.pop("ssl", False) else "tcp"
    until = boottime() + WITHIN_S
    settings = Settings(kind, arguments, f"the sentinel {shown(place)}", login=_LOGIN)
    link = Link(Dialler(settings).dial(until))
    try:
        name = watch.service.encode()
        command = packed(b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name)
        (said,) = link.ask_many([command], until)
    finally:
        link.close()
    if isinstance(said, list) and len(said) == 2:
        return said[0].decode(), int(said[1])
    return None
