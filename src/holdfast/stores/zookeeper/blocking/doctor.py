"""An examination of an ensemble: each part in words, and what to do about it.

It has a session of its own, and changes nothing but what that needs: the folder of the sessions.
"""

from __future__ import annotations

import re
import socket
import statistics
from collections.abc import Iterator

from kazoo.exceptions import KazooException

from ....core.finding import Finding, Level
from ....errors import HoldfastError
from ....runtime.blocking import boottime, run_sync
from ..config import Settings
from ..entering import Entering
from ..holders import lies_a_line, line_in_use
from ..keeping import Keeping
from ..mine import Own
from ..names import SIMPLE, decoded, entries, simple_in_use
from ..requests import Children, Look, No, Stat
from ..standing import Standing
from .port import ThreadPort

ROUNDS = 20
#: What a write may take, in the middle and at worst, seconds.
SLOW_S, WORST_S = 0.05, 0.5
#: A server is asked for its role for no longer than this.
ASK_S = 2.0
#: A session must be there within so many seconds, and everything else be over.
REACH_S, ALL_S = 5.0, 20.0
#: Whose nodes there are is looked up for so many names at most.
_NAMES_MAX = 200
#: All rights of an ACL: read, write, create, delete, admin.
_ALL = 31


def examine(settings: Settings) -> Iterator[Finding]:
    """Look at the ensemble that a URL names."""
    yield from _members(settings)
    port = ThreadPort(settings)
    try:
        try:
            until = boottime() + ALL_S
            line = Standing(port, settings.recipe)
            entering = Entering(port, line, settings.root, settings.recipe)
            keeping = Keeping(port, Own(), line, entering, settings.session)
            run_sync(keeping.mark(boottime() + REACH_S))
        except HoldfastError as wrong:
            yield Finding(
                Level.FAIL, "session", str(wrong), "are the hosts, the login and the ports right?"
            )
            return
        yield _session(settings, port)
        yield _writing(settings, keeping, until)
        yield from _acl(settings, port)
        yield from _nodes(settings, port, until)
        yield from _secrecy(settings)
    finally:
        run_sync(port.close())


def _members(settings: Settings) -> Iterator[Finding]:
    """What each of the hosts says that it is."""
    roles: list[str] = []
    for place in settings.hosts.split(","):
        said = "" if settings.tls else _ask(place)
        role = re.search(r"^Mode: (\w+)", said, re.MULTILINE)
        version = re.search(r"^Zookeeper version: ([0-9]+)\.([0-9]+)[0-9.]*", said, re.MULTILINE)
        if role is None:
            if "not currently serving" in said:
                yield Finding(
                    Level.WARN,
                    "server",
                    f"{place} serves nobody: it sees no majority",
                    "look after its connections to the other servers, and its log",
                )
            elif not settings.tls and not said:
                yield Finding(
                    Level.WARN, "server", f"{place} doesn't answer", "is it up, and in reach?"
                )
            continue
        roles.append(role[1])
        if version is not None and (int(version[1]), int(version[2])) < (3, 5):
            yield Finding(
                Level.FAIL,
                "server",
                f"{place} runs ZooKeeper {version[1]}.{version[2]}",
                "3.5 or later is needed",
            )
        else:
            text = f"{place} is {role[1]}" + (f", {version[0].split(': ')[1]}" if version else "")
            yield Finding(Level.OK, "server", text)
    if roles == ["standalone"]:
        yield Finding(
            Level.WARN,
            "ensemble",
            "one server alone: while it is down nobody gets a lock, and holds end with their lease",
            "three servers go on when one is lost",
        )
    elif roles and "leader" not in roles and "standalone" not in roles and len(roles) > 1:
        yield Finding(
            Level.WARN,
            "ensemble",
            "none of the hosts that answered leads",
            "name all servers of the ensemble in the URL",
        )
    elif len(roles) > 1:
        yield Finding(Level.OK, "ensemble", f"{len(roles)} servers answer, one of them leads")


def _ask(place: str) -> str:
    host, _, port = place.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), ASK_S) as one:
            one.settimeout(ASK_S)
            one.sendall(b"srvr")
            parts = []
            while part := one.recv(4096):
                parts.append(part)
    except OSError:
        return ""
    return b"".join(parts).decode(errors="replace") or "silent"


def _session(settings: Settings, port: ThreadPort) -> Finding:
    granted = port.granted()
    if granted > settings.session + 0.001:
        return Finding(
            Level.WARN,
            "session",
            f"{settings.session:g} s are asked for, and the servers give {granted:g} s at least: a "
            "dead process is noticed that late",
            f"write session={granted:g}, or lower minSessionTimeout (two ticks, if it isn't set)",
        )
    return Finding(Level.OK, "session", f"{granted:g} s: as late as that a crash is noticed")


def _writing(settings: Settings, keeping: Keeping, until: float) -> Finding:
    times = []
    try:
        for _ in range(ROUNDS):
            begun = boottime()
            run_sync(keeping.list_now(settings.root, until))
            times.append(boottime() - begun)
    except HoldfastError as wrong:
        return Finding(Level.FAIL, "writing", str(wrong), "see the log of the servers")
    middle, worst = statistics.median(times), max(times)
    text = f"a write takes {middle * 1000:.2f} ms, {worst * 1000:.2f} ms at worst of {len(times)}"
    if middle > SLOW_S or worst > WORST_S:
        return Finding(
            Level.WARN,
            "writing",
            text,
            "a write is one disk write on a majority of the servers: give dataLogDir a disk of "
            "its own, and look at the network between them",
        )
    return Finding(Level.OK, "writing", text)


def _acl(settings: Settings, port: ThreadPort) -> Iterator[Finding]:
    """Who may do what in our folder."""
    try:
        acls, _ = port.kazoo().get_acls(settings.root)
    except KazooException as wrong:
        yield Finding(Level.WARN, "rights", f"the ACL of {settings.root} can't be read: {wrong!r}")
        return
    for acl in acls:
        if acl.id.scheme == "world" and acl.perms == _ALL:
            yield Finding(
                Level.WARN,
                "rights",
                f"whoever reaches the servers may do anything in {settings.root}: break locks, "
                "and take them",
                "zookeeper://user:password@..., from the first use on, gives it to that user alone",
            )
            return
    yield Finding(Level.OK, "rights", f"{settings.root} belongs to {len(acls)} users or groups")


def _nodes(settings: Settings, port: ThreadPort, until: float) -> Iterator[Finding]:
    """Whose nodes there are."""
    try:
        (names,) = run_sync(port.ask([Children(settings.root)], until))
        if isinstance(names, No):
            return
        known = [(one, name) for one in names if (name := decoded(one)) is not None]
        for folder, name in known[:_NAMES_MAX]:
            path = f"{settings.root}/{folder}"
            node, nodes = run_sync(port.ask([Look(path), Children(path)], until))
            if not isinstance(node, Stat):
                continue
            if settings.recipe == SIMPLE:
                if lies_a_line(node):
                    raise line_in_use(name)
            elif node.session:
                raise simple_in_use(name)
            elif isinstance(nodes, list):
                entries(nodes, settings.recipe, name)
    except HoldfastError as wrong:
        yield Finding(Level.WARN, "nodes", str(wrong), "another prefix, or the other recipe")
        return
    yield Finding(Level.OK, "nodes", f"{len(known)} names are there, or were until a while ago")


def _secrecy(settings: Settings) -> Iterator[Finding]:
    if settings.auth and not settings.tls:
        yield Finding(
            Level.WARN,
            "secrecy",
            "the password goes over the network as it is",
            "tls=on, where the servers have a secure port",
        )
