"""Names of the nodes of a queue."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..names import decoded, digest, encoded

#: The folder of all queues. No name of a lock is encoded so that it begins with a dot.
QUEUES = ".queues"
#: What is in the folder of a queue, in the order in which it is made. The lanes are last, because a
#: put needs them: where one was carried out, all of it is there, whoever was cut while making it.
FOLDERS = (
    *("ready", "plain", "groups", "jobs", "taken", "dead", "idle", "ids"),
    *("accepted", "done", "removed", "pace", "pulse", "lanes"),
)
#: A group whose name is longer, encoded, is called by its digest.
_GROUP_MAX = 64
_ENTRY = re.compile(r"([^!]*)!((?:\d+!-?\d{10})?|[^!]+)!(\d+)!(\d+)!(\d+)!(\d*)!(x?)!(-?\d{10})")
_JOB = re.compile(r"(\d+)!(-?\d{10})")


class Entry(NamedTuple):
    """The entry of a group: what its name says.

    ``first``: the node of its first job; empty if that isn't known, or there is none. ``gap``:
    milliseconds after it was made before which it isn't due; ``at``: nor is it before this moment,
    in milliseconds by the leader's clock. ``birth``: the number of its group's first entry, which
    tells this life of a group from a former one, whose jobs had the same numbers. ``blocked``: its
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
        """Where it stands."""
        return "ready" if self.group else "plain"

    def next(
        self, first: str, attempts: int = 0, gap: int = 0, at: int = 0, blocked: bool = False
    ) -> str:
        """What the one is called that takes its place; the server adds its number."""
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
    """What an entry is called; the server adds its number.

    >>> entry_start("g", "0!0000000007", 1), entry_start("g", "", birth=4)
    ('g!0!0000000007!1!0!0!!!', 'g!!0!0!0!4!!')
    """
    born = "" if birth is None else birth
    return f"{group}!{first}!{attempts}!{gap}!{at}!{born}!{'x' if blocked else ''}!"


def read_entry(node: str) -> Entry | None:
    """What the name of an entry says; None if it is no entry of ours.

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
    """The entries among these nodes, in the order of their creation; some were read before."""
    read = (known.get(node) or read_entry(node) for node in nodes)
    found = [entry for entry in read if entry is not None]
    found.sort(key=lambda one: one.number)
    return found


def job_at(node: str) -> int:
    """When a job of a group may be delivered, as far as its name says.

    >>> job_at("1500!0000000007")
    1500
    """
    found = _JOB.fullmatch(node)
    return int(found[1]) if found is not None else 0


def job_number(node: str) -> int:
    """Its place in its group.

    >>> job_number("1500!0000000007")
    7
    """
    return int(node.rpartition("!")[2])


def in_order(nodes: Iterable[str]) -> list[str]:
    """The jobs of a group, in the order of their acceptance."""
    return sorted((one for one in nodes if _JOB.fullmatch(one)), key=job_number)


def group_key(group: str) -> str:
    """A group as a part of a path.

    >>> group_key("bank:4001"), group_key("a!b")
    ('bank:4001', 'a%21b')
    """
    key = encoded(group)
    return key if len(key) <= _GROUP_MAX else f"%-{digest(group)}"


def group_at(key: str, said: str) -> str:
    """The group of a job that stands under this key, where it may say otherwise as it was damaged.

    >>> group_at("a%21b", "a!b"), group_at("a%21b", "c"), group_at("", "c")
    ('a!b', 'a!b', '')
    """
    if key == (group_key(said) if said else ""):
        return said
    return decoded(key) or key


class Place(NamedTuple):
    """Where a queue is."""

    base: str

    def at(self, folder: str, node: str = "") -> str:
        """One of its folders, or a node in it."""
        return f"{self.base}/{folder}/{node}" if node else f"{self.base}/{folder}"

    def entry(self, entry: Entry) -> str:
        """Where an entry is."""
        return self.at(entry.folder, entry.node)

    def job(self, group: str, node: str) -> str:
        """Where a job is, by the key of its group."""
        return self.at(f"groups/{group}" if group else "jobs", node)

    def known(self, job_id: str) -> str:
        """Where an id is remembered."""
        mark = digest(job_id)
        return self.at(f"ids/{mark[:2]}", mark)


def place_of(root: str, queue: str) -> Place:
    """Where the queue of this name is."""
    return Place(f"{root}/{QUEUES}/{encoded(queue)}")
