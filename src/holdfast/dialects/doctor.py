"""An examination of a server for a dialect: each part in words, and what to do about it.

Which server it is, is looked at as for ``redis://``. What the user may do is found out by trying
it, on a key that nobody else uses and that is deleted again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..core.finding import Finding, Level
from ..stores.redis.blocking.doctor import server
from ..stores.redis.blocking.doctor.visit import Visit, well
from ..stores.redis.complaints import ServerSaid, rules
from ..url import StoreURL
from .opening import reach

#: How each command is tried. In the place of ``_KEY`` there is the name of a key of our own.
_KEY = b"KEY"
_TRIALS: dict[str, tuple[bytes, ...]] = {
    "evalsha": (b"0" * 40, b"1", _KEY),
    "script|load": (b"return 1",),
    "get": (_KEY,),
    "set": (_KEY, b"x", b"XX"),
    "exists": (_KEY,),
    "pttl": (_KEY,),
    "type": (_KEY,),
    "expire": (_KEY, b"1"),
    "pexpire": (_KEY, b"1000"),
    "hexists": (_KEY, b"x"),
    "hget": (_KEY, b"x"),
    "getrange": (_KEY, b"0", b"0"),
    # Of these, what follows is no number, or not a pair: said after the rights, too.
    "hset": (_KEY, b"x", b"x", b"x"),
    "hincrby": (_KEY, b"x", b"x"),
    "incrby": (_KEY, b"x"),
    "decrby": (_KEY, b"x"),
    "zadd": (_KEY, b"x", b"x"),
    "zincrby": (_KEY, b"x", b"x"),
    "hdel": (_KEY, b"x"),
    "hlen": (_KEY,),
    "hkeys": (_KEY,),
    "hgetall": (_KEY,),
    "zrem": (_KEY, b"x"),
    "zscore": (_KEY, b"x"),
    "zcard": (_KEY,),
    "zrange": (_KEY, b"0", b"0"),
    "zrangebyscore": (_KEY, b"0", b"0"),
    "zremrangebyscore": (_KEY, b"0", b"0"),
    "lindex": (_KEY, b"0"),
    "llen": (_KEY,),
    "lpop": (_KEY,),
    "lrange": (_KEY, b"0", b"0"),
    "lrem": (_KEY, b"0", b"x"),
    "time": (),
    "lpush": (_KEY, b"x"),
    "setnx": (_KEY, b"x"),
    "getset": (_KEY, b"x"),
    "del": (_KEY,),
    "scan": (b"0", b"COUNT", b"1"),
    "client|tracking": (b"OFF",),
}
_POLLS = "who waits asks about once a second instead"


def examine(
    url: StoreURL, needed: Sequence[str], spare: Mapping[str, str], tracks: bool = True
) -> Iterator[Finding]:
    """Look at the server of a dialect's URL.

    ``needed`` are the commands without which nothing works, ``spare`` those with what happens
    without them. ``tracks``: does the dialect have the server tell of changes?
    """
    settings = reach(url)
    prefix = str(url.options.get("prefix", ""))
    with Visit(settings) as visit:
        usable = True
        for finding in server.examine(visit):
            yield finding
            usable = usable and finding.level is not Level.FAIL
        if usable:
            yield from _rights(visit, prefix, needed, spare)
            if tracks:
                yield _tracking(visit)
            yield from _evicting(visit)


def _rights(
    visit: Visit, prefix: str, needed: Sequence[str], spare: Mapping[str, str]
) -> Iterator[Finding]:
    names = [name for name in _TRIALS if name in needed or name in spare]
    key = prefix.encode() + visit.word
    trials = [
        (*name.upper().encode().split(b"|"), *(key if w is _KEY else w for w in _TRIALS[name]))
        for name in names
    ]
    denied = [
        name
        for name, said in zip(names, visit.ask_many(trials), strict=True)
        if isinstance(said, ServerSaid)
        and (said.code == "NOPERM" or "unknown" in said.text.lower())
    ]
    lost = [name for name in denied if name in needed]
    if lost:
        words = " ".join(f"+{name}" for name in lost)
        yield Finding(
            Level.FAIL,
            "rights",
            f"{visit.user} may not call {', '.join(lost)} on keys that begin with {prefix!r}",
            f"{rules(visit.user_name, words, f'~{prefix}*')}, if the server knows them at all",
        )
    for name in denied:
        if name in spare:
            text = f"{visit.user} may not call {name}: {spare[name]}"
            yield Finding(Level.WARN, "rights", text, rules(visit.user_name, f"+{name}"))
    if not denied:
        yield well("rights", f"{visit.user} may do all that is needed")


def _tracking(visit: Visit) -> Finding:
    """Does the server tell of changes of a key?"""
    if visit.protocol == 2:
        return Finding(
            Level.WARN,
            "waking",
            f"the connection speaks RESP2, on which no changes are told: {_POLLS}",
            "let it speak RESP3 (take protocol=2 out of the URL), if the server can",
        )
    with visit.connected() as link:
        said = visit.ask(b"CLIENT", b"TRACKING", b"ON", b"OPTIN", link=link)
    if isinstance(said, ServerSaid):
        text = f"the server doesn't tell of changes ({said}): {_POLLS}"
        return Finding(Level.WARN, "waking", text, rules(visit.user_name, "+client|tracking"))
    return well("waking", "the server tells who waits that a key has changed")


def _evicting(visit: Visit) -> Iterator[Finding]:
    """May the server drop a lock for want of memory?"""
    policy = visit.setting("maxmemory-policy")
    limit = visit.setting("maxmemory")
    if policy and limit and limit != "0" and policy != "noeviction":
        yield Finding(
            Level.WARN,
            "memory",
            f"keys are dropped when the memory is used up ({policy}), locks among them",
            "set maxmemory-policy to noeviction, or keep locks on a server of their own",
        )
