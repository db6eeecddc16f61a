"""What the user may do: every command that holdfast calls, tried in a form without effect.

That tells more than the list of rights would, and needs no right of its own: a server before 7.0
has no ``ACL DRYRUN``, a proxy has no ACL at all, and ``rename-command`` shows in neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .....core.finding import Finding, Level
from ...complaints import ServerSaid, complaint, rules
from ...config import Settings
from ...keys import tag_of
from ...library import SCRIPTS, Script
from .visit import Visit, well

#: How each command is tried. In the place of ``KEY`` there is the name of a key that isn't there.
KEY = b"KEY"
TRIALS: dict[str, tuple[bytes, ...]] = {
    "evalsha": (b"0" * 40, b"1", KEY),
    "script|load": (b"return 1",),
    "ping": (),
    "scan": (b"0", b"COUNT", b"1"),
    "time": (),
    "hget": (KEY, b"x"),
    "hmget": (KEY, b"x"),
    # A value is missing: that is only noticed by the command itself, after the rights.
    "hset": (KEY, b"x", b"1", b"y"),
    "hdel": (KEY, b"x"),
    "hlen": (KEY,),
    "hgetall": (KEY,),
    "hkeys": (KEY,),
    "hrandfield": (KEY, b"1"),
    "zadd": (KEY, b"XX", b"1", b"x"),
    "zscore": (KEY, b"x"),
    "zremrangebyscore": (KEY, b"1", b"0"),
    "get": (KEY,),
    "set": (KEY, b"x", b"XX"),
    "info": (b"server",),
    "pexpire": (KEY, b"1000"),
    "pttl": (KEY,),
    "del": (KEY,),
    "type": (KEY,),
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
    called = called_by(SCRIPTS)
    idle = GUARD if settings.guard == "off" else frozenset[str]()
    return (frozenset(called - {_POKES}) | OURS | _confirming(settings)) - idle


def called_by(scripts: Iterable[Script]) -> set[str]:
    """Every command that one of these scripts calls."""
    return {
        name.decode().lower()
        for script in scripts
        for name in re.findall(rb"call\(\s*'(\w+)'", script.text)
    }


def _confirming(settings: Settings) -> frozenset[str]:
    return frozenset({"wait"} if settings.replicas else ())


def examine(visit: Visit) -> Iterator[Finding]:
    """Which commands and keys are missing, and does it take in what is written?"""
    names = [name for name in TRIALS if name in needed(visit.settings)]
    refused = refusals(visit, {name: TRIALS[name] for name in names})
    if GUARD_KEY in refused:  # then it is as if it were off
        refused = {name: one for name, one in refused.items() if name not in GUARD - {GUARD_KEY}}
    findings = [*_commands(visit, refused), *_keys(visit, refused)]
    yield from findings or [well("rights", f"{visit.user} may do all that is needed")]
    yield from _writing(visit, refused)


def refusals(visit: Visit, trials: dict[str, tuple[bytes, ...]]) -> dict[str, ServerSaid]:
    """What is said to those of these commands that aren't carried out."""
    said = visit.ask_many([_trial(visit, name, words) for name, words in trials.items()])
    return {
        name: one for name, one in zip(trials, said, strict=True) if isinstance(one, ServerSaid)
    }


def _trial(visit: Visit, name: str, trial: tuple[bytes, ...]) -> tuple[bytes, ...]:
    key = f"{visit.prefix}:{tag_of(visit.buckets[0])}!".encode() + visit.word
    words = (key if word is KEY else word for word in trial)
    return *name.upper().encode().split(b"|"), *words


def forbidden(refused: dict[str, ServerSaid]) -> list[str]:
    """Those that the user may not call."""
    return [name for name, said in refused.items() if said.code == "NOPERM" and not _key(said)]


def absent(refused: dict[str, ServerSaid]) -> list[str]:
    """Those that aren't there."""
    return [name for name, said in refused.items() if _UNKNOWN.search(said.text)]


def _commands(visit: Visit, refused: dict[str, ServerSaid]) -> Iterator[Finding]:
    """Those that the user may not call, and those that aren't there."""
    denied, gone = forbidden(refused), absent(refused)
    for names, who, remedy in (
        (denied, f"{visit.user} may not call", rules(visit.user_name, "{}")),
        (gone, "there is no command", "is it a proxy, or was {} renamed (rename-command)?"),
    ):
        must = [name for name in names if name not in SPARE]
        words = " ".join(f"+{name}" if names is denied else shown(name) for name in names)
        if must:
            yield Finding(
                Level.FAIL,
                "rights" if names is denied else "commands",
                f"{who} {', '.join(map(shown, must))}, which holdfast needs",
                remedy.replace("{}", words),
            )
        for name in sorted(set(names) - set(must)):
            yield Finding(
                Level.WARN,
                "rights" if names is denied else "commands",
                f"{who} {shown(name)}: {SPARE[name]}",
                remedy.replace("{}", f"+{name}" if names is denied else shown(name)),
            )


def shown(name: str) -> str:
    """A command as people write it."""
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
            rules(visit.user_name, f"~{visit.prefix}:*"),
        )


#: A refusal of these is no want of rights: the server takes in nothing at the moment.
_SHUT = frozenset({"OOM", "READONLY", "MASTERDOWN", "LOADING", "MISCONF", "NOREPLICAS", "BUSY"})


def _writing(visit: Visit, refused: dict[str, ServerSaid]) -> Iterator[Finding]:
    for said in refused.values():
        if said.code in _SHUT:
            yield Finding(Level.FAIL, "writing", str(complaint(said, visit.label)))
            return
