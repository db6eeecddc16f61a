"""Names of the nodes of a queue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..names import decoded, digest, encoded

#: The folder of all queues. No encoded name of a lock begins with a dot.
QUEUES = ".queues"
#: The nodes in the folder of a queue, in the order of creation. ``lanes`` is last, because each put
#: needs it. So a put that was carried out proves that all of these nodes exist, even if a client
#: lost its connection while it created them.
FOLDERS = (
    *("ready", "plain", "groups", "jobs", "taken", "dead", "idle", "ids"),
    *("accepted", "done", "removed", "pace", "pulse", "lanes"),
)
#: Maximum length of an encoded group name. The key of a group with a longer name is a digest.
_GROUP_MAX = 64
_ENTRY = re.compile(r"([^!]*)!((?:\d+!-?\d{10})?|[^!]+)!(\d+)!(\d+)!(\d+)!(\d*)!(x?)!(-?\d{10})")
_JOB = re.compile(r"(\d+)!(-?\d{10})")


class Entry(NamedTuple):
    """The entry of a group or of an ungrouped job, parsed from its name.

    ``first``: the node of the first job; empty if there is none, or if it is unknown. The entry is
    due ``gap`` milliseconds after its creation, and not before ``at`` (milliseconds by the leader's
    clock). ``birth``: the number of the group's first entry. A group that was removed and created
    again has another ``birth``, but its jobs have the same numbers as before. ``blocked``: the
    first job is a dead letter.
    """

    node: str
    number: int
    group: str
    first: str
    attempts: int
    gap: int
    at: int
    birth: int
    blocked: bool = False

    @property
    def folder(self) -> str:
        """The folder of the entry."""
        return "ready" if self.group else "plain"

    def next(
        self, first: str, attempts: int = 0, gap: int = 0, at: int = 0, blocked: bool = False
    ) -> str:
        """Return the name of the entry that replaces this one; the server adds its number."""
        return entry_start(self.group, first, attempts, gap, at, self.birth, blocked)


_NONE: Mapping[str, Entry] = {}


def entry_start(
    group: str,
    first: str,
    attempts: int = 0,
    gap: int = 0,
    at: int = 0,
    birth: int | None = None,
    blocked: bool = False,
) -> str:
    """Return the name of an entry; the server adds its number.

    >>> entry_start("g", "0!0000000007", 1), entry_start("g", "", birth=4)
    ('g!0!0000000007!1!0!0!!!', 'g!!0!0!0!4!!')
    """
    born = "" if birth is None else birth
    return f"{group}!{first}!{attempts}!{gap}!{at}!{born}!{'x' if blocked else ''}!"


def read_entry(node: str) -> Entry | None:
    """Parse the name of an entry; None if the node isn't an entry.

    >>> read_entry("g!0!0000000007!1!0!0!!!0000000042").first
    '0!0000000007'
    >>> read_entry("!9f-1-0!0!0!0!!!0000000043").first, read_entry("g!!0!5!0!4!!0000000044").birth
    ('9f-1-0', 4)
    """
    found = _ENTRY.fullmatch(node)
    if found is None:
        return None
    group, first, attempts, gap, at, birth, blocked, number = found.groups()
    turn = int(number)
    born = int(birth) if birth else turn
    sizes = (int(attempts), int(gap), int(at), born)
    return Entry(node, turn, group, first, *sizes, bool(blocked))


def entries(nodes: Iterable[str], known: Mapping[str, Entry] = _NONE) -> list[Entry]:
    """Return the entries among these nodes, in order of creation. ``known``: parsed entries."""
    read = (known.get(node) or read_entry(node) for node in nodes)
    found = [entry for entry in read if entry is not None]
    found.sort(key=lambda one: one.number)
    return found


def job_at(node: str) -> int:
    """Return the earliest delivery time in the name of a group's job; 0 if it has none.

    >>> job_at("1500!0000000007")
    1500
    """
    found = _JOB.fullmatch(node)
    return int(found[1]) if found is not None else 0


def job_number(node: str) -> int:
    """Return the number of a job in its group.

    >>> job_number("1500!0000000007")
    7
    """
    return int(node.rpartition("!")[2])


def in_order(nodes: Iterable[str]) -> list[str]:
    """Return the jobs of a group, in the order of their acceptance."""
    return sorted((one for one in nodes if _JOB.fullmatch(one)), key=job_number)


def group_key(group: str) -> str:
    """Return the key of a group: a part of a path.

    >>> group_key("bank:4001"), group_key("a!b")
    ('bank:4001', 'a%21b')
    """
    key = encoded(group)
    return key if len(key) <= _GROUP_MAX else f"%-{digest(group)}"


def group_at(key: str, said: str) -> str:
    """Return the group of a job in the folder ``key``. ``said``: the group in the job's data.

    If the job was damaged, its data can contain another group, which is ignored.

    >>> group_at("a%21b", "a!b"), group_at("a%21b", "c"), group_at("", "c")
    ('a!b', 'a!b', '')
    """
    if key == (group_key(said) if said else ""):
        return said
    return decoded(key) or key


class Place(NamedTuple):
    """The paths of a queue."""

    base: str

    def at(self, folder: str, node: str = "") -> str:
        """Return the path of a folder of the queue, or of a node in that folder."""
        return f"{self.base}/{folder}/{node}" if node else f"{self.base}/{folder}"

    def entry(self, entry: Entry) -> str:
        """Return the path of an entry."""
        return self.at(entry.folder, entry.node)

    def job(self, group: str, node: str) -> str:
        """Return the path of a job. ``group``: the key of its group, or empty."""
        return self.at(f"groups/{group}" if group else "jobs", node)

    def known(self, job_id: str) -> str:
        """Return the path of the node that remembers the id of a job."""
        mark = digest(job_id)
        return self.at(f"ids/{mark[:2]}", mark)


def place_of(root: str, queue: str) -> Place:
    """Return the paths of the queue with this name."""
    return Place(f"{root}/{QUEUES}/{encoded(queue)}")
