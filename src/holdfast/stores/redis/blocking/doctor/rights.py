"""What the user may do: every command that holdfast calls, tried in a form without effect.

That tells more than the list of rights would, and needs no right of its own: a server before 7.0
has no ``ACL DRYRUN``, a proxy has no ACL at all, and ``rename-command`` shows in neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .....core.finding import Finding, Level
from ...complaints import ServerSaid, complaint
from ...config import Settings
from ...keys import tag_of
from ...library import SCRIPTS
from .visit import Visit, well

#: How each command is tried. In the place of ``_KEY`` there is the name of a key that isn't there.
_KEY = b"KEY"
TRIALS: dict[str, tuple[bytes, ...]] = {
    "evalsha": (b"0" * 40, b"1", _KEY),
    "script|load": (b"return 1",),
    "ping": (),
    "scan": (b"0", b"COUNT", b"1"),
    "time": (),
    "hget": (_KEY, b"x"),
    "hmget": (_KEY, b"x"),
    # A value is missing: that is only noticed by the command itself, after the rights.
    "hset": (_KEY, b"x", b"1", b"y"),
    "hdel": (_KEY, b"x"),
    "hlen": (_KEY,),
    "hgetall": (_KEY,),
    "hkeys": (_KEY,),
    "hrandfield": (_KEY, b"1"),
    "zadd": (_KEY, b"XX", b"1", b"x"),
    "zscore": (_KEY, b"x"),
    "zremrangebyscore": (_KEY, b"1", b"0"),
    "get": (_KEY,),
    "set": (_KEY, b"x", b"XX"),
    "info": (b"server",),
    "pexpire": (_KEY, b"1000"),
    "pttl": (_KEY,),
    "del": (_KEY,),
    "type": (_KEY,),
    "wait": (b"0", b"1"),
}
#: What goes without, and what that means.
SPARE = {
    "scan": "holdfast ls can't find names",
    "info": "there is no guard against a restart without data",
    "script|load": "nothing works before somebody else has loaded the scripts",
}
#: What the store calls by itself; the rest is what its scripts call.
OURS = frozenset({"evalsha", "script|load", "ping", "scan"})
#: What only the guard calls, and what it can do nothing without.
GUARD, GUARD_KEY = frozenset({"info", "get", "set"}), "info"
#: Its refusals are the affair of `reach`, because nothing but time is lost by them.
_POKES = "publish"
#: The user, or the server, doesn't know or allow the command.
_UNKNOWN = re.compile(r"unknown (?:sub)?command|not supported", re.IGNORECASE)
_A_KEY = re.compile(r"\bkeys?\b")


def needed(settings: Settings) -> frozenset[str]:
    """Every command that the store or one of its scripts calls."""
    called = {
        name.decode().lower()
        for script in SCRIPTS
        for name in re.findall(rb"call\(\s*'(\w+)'", script.text)
    }
    idle = GUARD if settings.guard == "off" else frozenset[str]()
    return (frozenset(called - {_POKES}) | OURS | _confirming(settings)) - idle


def _confirming(settings: Settings) -> frozenset[str]:
    return frozenset({"wait"} if settings.replicas else ())


def examine(visit: Visit) -> Iterator[Finding]:
    """Which commands and keys are missing, and does it take in what is written?"""
    names = [name for name in TRIALS if name in needed(visit.settings)]
    said = visit.ask_many([_trial(visit, name) for name in names])
    refused = {
        name: one for name, one in zip(names, said, strict=True) if isinstance(one, ServerSaid)
    }
    if GUARD_KEY in refused:  # then it is as if it were off
        refused = {name: one for name, one in refused.items() if name not in GUARD - {GUARD_KEY}}
    findings = [*_commands(visit, refused), *_keys(visit, refused)]
    yield from findings or [well("rights", f"{visit.user} may do all that is needed")]
    yield from _writing(visit, refused)


def _trial(visit: Visit, name: str) -> tuple[bytes, ...]:
    key = f"{visit.prefix}:{tag_of(visit.buckets[0])}!".encode() + visit.word
    words = (key if word is _KEY else word for word in TRIALS[name])
    return *name.upper().encode().split(b"|"), *words


def _commands(visit: Visit, refused: dict[str, ServerSaid]) -> Iterator[Finding]:
    """Those that the user may not call, and those that aren't there."""
    denied = [name for name, said in refused.items() if said.code == "NOPERM" and not _key(said)]
    gone = [name for name, said in refused.items() if _UNKNOWN.search(said.text)]
    for names, who, remedy in (
        (denied, f"{visit.user} may not call", "ACL SETUSER ... {}"),
        (gone, "there is no command", "is it a proxy, or was {} renamed (rename-command)?"),
    ):
        must = [name for name in names if name not in SPARE]
        words = " ".join(f"+{name}" if names is denied else _shown(name) for name in names)
        if must:
            yield Finding(
                Level.FAIL,
                "rights" if names is denied else "commands",
                f"{who} {', '.join(map(_shown, must))}, which holdfast needs",
                remedy.format(words),
            )
        for name in sorted(set(names) - set(must)):
            yield Finding(
                Level.WARN,
                "rights" if names is denied else "commands",
                f"{who} {_shown(name)}: {SPARE[name]}",
                remedy.format(f"+{name}" if names is denied else _shown(name)),
            )


def _shown(name: str) -> str:
    return name.upper().replace("|", " ")


def _key(said: ServerSaid) -> bool:
    """Is it a key that is refused, not the command?"""
    return bool(_A_KEY.search(said.text))


def _keys(visit: Visit, refused: dict[str, ServerSaid]) -> Iterator[Finding]:
    if any(said.code == "NOPERM" and _key(said) for said in refused.values()):
        yield Finding(
            Level.FAIL,
            "rights",
            f"{visit.user} may not touch keys that begin with {visit.prefix}:",
            f"ACL SETUSER ... ~{visit.prefix}:*",
        )


#: A refusal of these is no want of rights: the server takes in nothing at the moment.
_SHUT = frozenset({"OOM", "READONLY", "MASTERDOWN", "LOADING", "MISCONF", "NOREPLICAS", "BUSY"})


def _writing(visit: Visit, refused: dict[str, ServerSaid]) -> Iterator[Finding]:
    for said in refused.values():
        if said.code in _SHUT:
            yield Finding(Level.FAIL, "writing", str(complaint(said, visit.label)))
            return
