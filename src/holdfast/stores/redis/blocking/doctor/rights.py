"""Permissions of the user: each command that holdfast calls, tried in a form without effect.

This finds more than the list of rights would, and needs no additional right: a server before 7.0
has no ``ACL DRYRUN``, a proxy has no ACL at all, and neither of them shows ``rename-command``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from .....core.finding import Finding, Table, fail, ok, warn
from ...complaints import ServerSaid, complaint, rules
from ...config import Settings
from ...keys import tag_of
from ...library import QUEUE_SCRIPTS, SCRIPTS, VALUE_SCRIPTS, Script
from .visit import Visit

#: The form in which each command is tried. ``KEY`` is replaced by the name of a key that isn't
#: there. Some commands fail only after the check of rights: an argument is missing, or is no
#: number. The commands that create the key come last, before ``DEL``; only `holdfast.dialects`
#: calls these commands.
KEY = b"KEY"
_FORMS: tuple[tuple[tuple[bytes, ...], str], ...] = (
    ((), "ping time"),
    ((b"server",), "info"),
    ((b"return 1",), "script|load"),
    ((b"0" * 40, b"1", KEY), "evalsha"),
    ((b"OFF",), "client|tracking"),
    ((b"0", b"1"), "wait"),
    ((b"0", b"COUNT", b"1"), "scan"),
    ((KEY,), "get exists type pttl persist strlen hlen hkeys hgetall zcard zpopmin llen lpop"),
    ((KEY, b"0"), "hscan zscan lindex"),
    ((KEY, b"1"), "expire hrandfield"),
    ((KEY, b"1000"), "pexpire"),
    ((KEY, b"x"), "incrby decrby hget hmget hdel hexists zscore zmscore zrem"),
    ((KEY, b"x", b"x"), "hincrby zincrby"),
    ((KEY, b"x", b"XX"), "set"),
    ((KEY, b"x", b"1", b"y"), "hset"),
    ((KEY, b"XX", b"1", b"x"), "zadd"),
    ((KEY, b"0", b"0"), "getrange zcount zrange zrevrange zrangebyscore lrange"),
    ((KEY, b"1", b"0"), "zremrangebyscore"),
    ((KEY, b"0", b"x"), "lrem"),
    ((KEY, b"x"), "lpush setnx getset"),
    ((KEY,), "unlink del"),
)
TRIALS = {name: form for form, names in _FORMS for name in names.split()}
#: Commands that can be missing, and the consequence.
SPARE = {
    "scan": "holdfast ls can't find names",
    "info": "there is no recovery after a restart without data",
    "script|load": "nothing works before another client has loaded the scripts",
}
#: Commands that the store itself calls; its scripts call the rest.
OURS = frozenset({"evalsha", "script|load", "ping", "scan"})
#: Commands that only recovery calls, and the command without which recovery can do nothing.
RECOVERY, RECOVERY_KEY = frozenset({"info", "get", "set"}), "info"
#: Commands for wake-ups. Without them, waiters only lose time: `reach` reports that.
_POKES = frozenset({"publish", "spublish"})
#: The texts of errors about a command that the server doesn't have.
_UNKNOWN = re.compile(r"unknown (?:sub)?command|not supported", re.IGNORECASE)
_A_KEY = re.compile(r"\bkeys?\b")
#: These refusals don't mean a lack of rights: the server accepts no writes at the moment.
_SHUT = frozenset({"OOM", "READONLY", "MASTERDOWN", "LOADING", "MISCONF", "NOREPLICAS", "BUSY"})


def called_by(scripts: Iterable[Script]) -> frozenset[str]:
    """Every command that one of these scripts calls, except for the wake-ups."""
    texts = (re.findall(rb"(?:call|many)\(\s*'(\w+)'", script.text) for script in scripts)
    return frozenset(name.decode().lower() for text in texts for name in text) - _POKES


LOCKS = called_by(SCRIPTS) | OURS | RECOVERY | {"wait"}
#: Commands that serial queues and refresh guards need in addition.
QUEUES, VALUES = called_by(QUEUE_SCRIPTS) - LOCKS, called_by(VALUE_SCRIPTS) - LOCKS


def needed(settings: Settings) -> frozenset[str]:
    """Every command that locks need."""
    idle = RECOVERY if settings.recovery == "off" else frozenset[str]()
    return LOCKS - idle - (frozenset() if settings.replicas else {"wait"})


def refusals(visit: Visit, names: Collection[str], prefix: str) -> dict[str, ServerSaid]:
    """The error replies to these commands, without the commands that succeed."""
    key = f"{prefix}{tag_of(visit.buckets[0])}!".encode() + visit.word
    tried = {name: words for name, words in TRIALS.items() if name in names}
    said = visit.ask_many(
        [
            (*name.upper().encode().split(b"|"), *(key if word is KEY else word for word in words))
            for name, words in tried.items()
        ]
    )
    return {name: one for name, one in zip(tried, said, strict=True) if isinstance(one, ServerSaid)}


def lacking(
    visit: Visit, refused: Mapping[str, ServerSaid], spare: Mapping[str, str], absent: str = ""
) -> Iterator[Finding]:
    """The commands that the user may not call, and commands that aren't there (``absent``).

    ``spare``: commands that aren't always needed, with the consequence if one is missing.
    """
    denied = [name for name, said in refused.items() if said.code == "NOPERM" and not _key(said)]
    gone = [name for name, said in refused.items() if _UNKNOWN.search(said.text)]
    for names in filter(None, (denied, gone)):
        who, subject = f"{visit.user} may not call", ""
        if names is gone:
            who, subject = "there is no command", absent
        for meaning in dict.fromkeys(spare.get(name, "") for name in sorted(names)):
            these = [name for name in sorted(names) if spare.get(name, "") == meaning]
            shown = ", ".join(name.upper().replace("|", " ") for name in these)
            remedy = f"is it a proxy, or was {shown} renamed (rename-command)?"
            if names is denied:
                remedy = rules(visit.user_name, *(f"+{name}" for name in these))
            if meaning:
                yield warn(f"{who} {shown}: {meaning}", remedy, subject)
            else:
                yield fail(f"{who} {shown}, which holdfast needs", remedy, subject)


def _key(said: ServerSaid) -> bool:
    """True if the key is refused, not the command."""
    return bool(_A_KEY.search(said.text))


def examine(
    visit: Visit, names: Collection[str], spare: Mapping[str, str], prefix: str
) -> Iterator[Finding]:
    """Report missing commands and keys, and whether the server accepts writes."""
    refused = refusals(visit, names, prefix)
    if RECOVERY_KEY in refused:  # then recovery works as if it were off
        refused = {
            name: one for name, one in refused.items() if name not in RECOVERY - {RECOVERY_KEY}
        }
    findings = list(lacking(visit, refused, spare, "commands"))
    if any(said.code == "NOPERM" and _key(said) for said in refused.values()):
        text = f"{visit.user} has no right to keys that begin with {prefix or 'anything'}"
        findings.append(fail(text, rules(visit.user_name, f"~{prefix}*")))
    yield from findings or [ok(f"{visit.user} may do all that is needed")]
    for said in refused.values():
        if said.code in _SHUT:
            yield fail(str(complaint(said, visit.label)), subject="writing")
            return


def _besides(visit: Visit, names: Collection[str], meaning: str, well: str) -> Iterator[Finding]:
    """Report if serial queues, or refresh guards, can be used on this server."""
    refused = refusals(visit, names, f"{visit.prefix}:")
    yield from list(lacking(visit, refused, dict.fromkeys(names, meaning))) or [ok(well)]


CHECKS: Table[Visit] = {
    "rights": lambda visit: examine(visit, needed(visit.settings), SPARE, f"{visit.prefix}:"),
    "queues": lambda visit: _besides(
        visit,
        QUEUES,
        "serial queues don't work here, only locks",
        f"{visit.user} has all rights that serial queues need",
    ),
    "values": lambda visit: _besides(
        visit,
        VALUES,
        "refresh guards (client.guard) don't work here",
        "refresh guards can keep their values here",
    ),
}
