"""The Lua scripts of this dialect, read from their files."""

from __future__ import annotations

import os

from ...stores.redis.library import Script, assembled, script_of

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lua")


def _script(name: str) -> Script:
    return script_of(name, assembled(name, _FOLDER))


JOIN = _script("join")
JOIN_FAIR = _script("join_fair")
JOIN_READ = _script("join_read")
JOIN_WRITE = _script("join_write")
JOIN_PERMITS = _script("join_permits")
RENEW = _script("renew")
DOWNGRADE = _script("downgrade")
LEAVE = _script("leave")
BREAK = _script("break")
INSPECT = _script("inspect")
RESIZE = _script("resize")
SCRIPTS = (
    JOIN,
    JOIN_FAIR,
    JOIN_READ,
    JOIN_WRITE,
    JOIN_PERMITS,
    RENEW,
    DOWNGRADE,
    LEAVE,
    BREAK,
    INSPECT,
    RESIZE,
)
