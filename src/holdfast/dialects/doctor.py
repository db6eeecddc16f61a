"""Examines a server for a dialect, for ``holdfast doctor``: findings, each with a remedy.

The checks of ``redis://`` run first. The rights of the user are tested by use: the commands run on
a key that no other client uses, and that is deleted afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..core.finding import Finding, Table, ok, run, warn
from ..stores.redis.blocking.doctor import rights, server
from ..stores.redis.blocking.doctor.visit import Visit
from ..stores.redis.complaints import ServerSaid, rules
from ..url import StoreURL
from .opening import reach

_POLLS = "waiters ask about once a second"


def examine(
    url: StoreURL, needed: Sequence[str], spare: Mapping[str, str], tracks: bool = True
) -> Iterator[Finding]:
    """Examine the server of a dialect's URL.

    ``needed``: the required commands. ``spare``: the optional commands, each with the effect of its
    absence. ``tracks``: True if the dialect uses the server's notifications of changes.
    """
    prefix = str(url.options.get("prefix", ""))
    checks: Table[Visit] = {
        "rights": lambda visit: rights.examine(visit, {*needed, *spare}, spare, prefix),
        **({"waking": _tracking} if tracks else {}),
        "memory": _evicting,
    }
    with Visit(reach(url)) as visit:
        yield from run(visit, server.CHECKS, checks)


def _tracking(visit: Visit) -> Finding:
    """Test whether the server sends notifications of changes of a key."""
    if visit.protocol == 2:
        return warn(
            f"the connection uses RESP2, without notifications of changes: {_POLLS}",
            "use RESP3 (remove protocol=2 from the URL), if the server supports it",
        )
    with visit.connected() as link:
        said = visit.ask(b"CLIENT", b"TRACKING", b"ON", b"OPTIN", link=link)
    if isinstance(said, ServerSaid):
        text = f"the server refuses notifications of changes ({said}): {_POLLS}"
        return warn(text, rules(visit.user_name, "+client|tracking"))
    return ok("the server notifies waiters of changed keys")


def _evicting(visit: Visit) -> Finding | None:
    """Test whether the server can evict a lock when its memory is full."""
    policy = visit.setting("maxmemory-policy")
    limit = visit.setting("maxmemory")
    if not policy or limit in (None, "", "0") or policy == "noeviction":
        return None
    return warn(
        f"when memory is full the server evicts keys ({policy}), also locks",
        "set maxmemory-policy to noeviction, or use a separate server for locks",
    )
