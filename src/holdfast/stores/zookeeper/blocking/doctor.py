"""Examines an ensemble for ``holdfast doctor``: findings, each with a remedy.

The examination uses a separate session. It writes only the node of this session, and creates
missing folders.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

from kazoo.exceptions import KazooException

from ....core.finding import Finding, Found, Table, fail, latency, ok, run, warn
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

#: Maximum acceptable seconds for a write.
WORST_S = 0.5
#: Maximum seconds until one server has reported its role.
ASK_S = 2.0
#: Maximum seconds until there is a session, and for the whole examination.
REACH_S, ALL_S = 5.0, 20.0
#: Maximum number of names whose nodes are checked.
_NAMES_MAX = 200
#: All rights of an ACL: read, write, create, delete, admin.
_ALL = 31


class Visit:
    """One examination of an ensemble, by a separate session."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.port = ThreadPort(settings)
        self.until = boottime() + ALL_S
        line = Standing(self.port, settings.recipe)
        entering = Entering(self.port, line, settings.root, settings.recipe)
        self.keeping = Keeping(self.port, Own(), line, entering, settings.session)


def examine(settings: Settings) -> Iterator[Finding]:
    """Examine the ensemble that a URL names."""
    visit = Visit(settings)
    try:
        yield from run(visit, _REACH, _PARTS)
    finally:
        run_sync(visit.port.close())


def _members(visit: Visit) -> Iterator[Finding]:
    """Ask each host for its role and version."""
    roles: list[str] = []
    tls = visit.settings.tls
    for place in visit.settings.hosts.split(","):
        said = "" if tls else _ask(place)
        role = re.search(r"^Mode: (\w+)", said, re.MULTILINE)
        version = re.search(r"^Zookeeper version: ([0-9]+)\.([0-9]+)[0-9.]*", said, re.MULTILINE)
        if role is None:
            if "not currently serving" in said:
                text = f"{place} serves no client: it sees no majority"
                yield warn(text, "check its connections to the other servers, and its log")
            elif not tls and not said:
                yield warn(f"{place} doesn't answer", "check whether it runs, and can be reached")
            continue
        roles.append(role[1])
        if version is not None and (int(version[1]), int(version[2])) < (3, 5):
            text = f"{place} runs ZooKeeper {version[1]}.{version[2]}"
            yield fail(text, "3.5 or later is needed")
        else:
            yield ok(f"{place} is {role[1]}" + (f", {version[0][19:]}" if version else ""))
    if roles == ["standalone"]:
        yield warn(
            "a single server: while it is down, no lock is granted, and holds end with their lease",
            "three servers continue when one is lost",
            "ensemble",
        )
    elif len(roles) > 1 and not {"leader", "standalone"} & set(roles):
        text = "none of the hosts that answered is the leader"
        yield warn(text, "name all servers of the ensemble in the URL", "ensemble")
    elif len(roles) > 1:
        yield ok(f"{len(roles)} servers answer, one of them is the leader", "ensemble")


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


def _session(visit: Visit) -> Finding:
    try:
        run_sync(visit.keeping.mark(boottime() + REACH_S))
    except HoldfastError as wrong:
        return fail(str(wrong), "check the hosts, the login and the ports")
    wanted, granted = visit.settings.session, visit.port.granted()
    if granted <= wanted + 0.001:
        return ok(f"{granted:g} s: a crash is noticed after this time")
    return warn(
        f"{wanted:g} s are requested, but the servers grant at least {granted:g} s: a dead process "
        "is noticed after that time",
        f"write session={granted:g}, or lower minSessionTimeout (two ticks, if it isn't set)",
    )


def _writing(visit: Visit) -> Finding:
    def write() -> None:
        run_sync(visit.keeping.list_now(visit.settings.root, visit.until))

    try:
        return latency(boottime, write, _SLOW, "a write takes", WORST_S)
    except HoldfastError as wrong:
        return fail(str(wrong), "see the log of the servers")


def _acl(visit: Visit) -> Finding:
    """Check the rights on our folder."""
    root = visit.settings.root
    try:
        acls, _ = visit.port.kazoo().get_acls(root)
    except KazooException as wrong:
        return warn(f"the ACL of {root} can't be read: {wrong!r}")
    if any(acl.id.scheme == "world" and acl.perms == _ALL for acl in acls):
        return warn(
            f"every client of the servers has all rights in {root}: it can break and take locks",
            "zookeeper://user:password@..., from the first use on, makes that user its owner",
        )
    return ok(f"{root} belongs to {len(acls)} users or groups")


def _nodes(visit: Visit) -> Finding | None:
    """Check that the nodes in our folder belong to our recipe."""
    root, recipe, ask = visit.settings.root, visit.settings.recipe, visit.port.ask
    try:
        (names,) = run_sync(ask([Children(root)], visit.until))
        if isinstance(names, No):
            return None
        known = [(one, name) for one in names if (name := decoded(one)) is not None]
        for folder, name in known[:_NAMES_MAX]:
            path = f"{root}/{folder}"
            node, nodes = run_sync(ask([Look(path), Children(path)], visit.until))
            if not isinstance(node, Stat):
                continue
            if recipe == SIMPLE:
                if lies_a_line(node):
                    raise line_in_use(name)
            elif node.session:
                raise simple_in_use(name)
            elif isinstance(nodes, list):
                entries(nodes, recipe, name)
    except HoldfastError as wrong:
        return warn(str(wrong), "another prefix, or the other recipe")
    return ok(f"{len(known)} names are in use, or were a short time ago")


def _secrecy(visit: Visit) -> Found:
    plain = bool(visit.settings.auth) and not visit.settings.tls
    text = "the password goes over the network unencrypted"
    return plain and warn(text, "tls=on, where the servers have a secure port")


_SLOW = (
    "a write is one disk write on a majority of the servers: give dataLogDir a separate "
    "disk, and check the network between the servers"
)
_REACH: Table[Visit] = {"server": _members, "session": _session}
_PARTS: Table[Visit] = {
    "writing": _writing,
    "rights": _acl,
    "nodes": _nodes,
    "secrecy": _secrecy,
}
