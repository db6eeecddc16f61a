"""Names of nodes: each lock name has a folder, and each claim has a numbered node in it.

::

    /holdfast/orders%2F42/9f86d081884c7d65...-l-1-1-w__lock__0000000017
                          |                 | | | |   |       the server's count of creations
                          |                 | | | |   as in kazoo's Lock and WriteLock;
                          |                 | | | |   for readers it is __rlock__
                          |                 | | | w: a waiter or holder; t: a try without waiting
                          |                 | | weight
                          |                 | capacity
                          |                 lock, semaphore, rwlock or election
                          digest of the claim's secret id

So one list of children shows all claims on the name, and their numbers show the order.
``recipe=curator`` uses the names of Curator's InterProcessMutex, which have room only for the
digest. ``recipe=simple`` has no lines: the name's folder is the node of its one holder
(``simple.py``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

from ...core.model import Claim, Kind
from ...errors import ConfigError

KAZOO, CURATOR, SIMPLE = "kazoo", "curator", "simple"
RECIPES = (KAZOO, CURATOR, SIMPLE)
#: Folder with one node per session. No lock has this folder: encoded names never begin with a dot.
SESSIONS = ".sessions"
#: The layout of the nodes. A release with layout 2 makes the node `mark_of` (2) before any other.
LAYOUT = 1
#: Folder of the claims of the simple recipe, whose lock nodes don't have a claim's id in the name.
CLAIMS = ".claims"

_LETTERS = {Kind.LOCK: "l", Kind.SEMAPHORE: "s", Kind.RWLOCK: "r", Kind.ELECTION: "e"}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}
_OURS = re.compile(r"([0-9a-f]{32})-([lsre])-(\d+)-(\d+)-([tw])__r?lock__(-?\d{10})")
_KAZOO = re.compile(r".*__(r?)lock__(-?\d{10})", re.DOTALL)
_CURATOR = re.compile(r".*-lock-(-?\d{10})", re.DOTALL)
_CURATOR_OTHERS = re.compile(r".*-(?:__WRIT__|__READ__|lease-)-?\d{10}", re.DOTALL)
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-:@=+,~")
_TURN = 1 << 32


class Entry(NamedTuple):
    """A claim, parsed from the name of its node. ``kind`` is empty for a node of another library.

    ``number`` is the server's count of creations. ``trying``: the claim doesn't wait. ``reads``: a
    read lock of another library.
    """

    node: str
    number: int
    kind: str
    capacity: int
    weight: int
    digest: str = ""
    trying: bool = False
    reads: bool = False


def encoded(name: str) -> str:
    """Encode a name as one part of a path; different names stay different.

    >>> encoded("order/42"), encoded("..")
    ('order%2F42', '%2E.')
    """
    text = "".join(chr(one) if one in _PLAIN else f"%{one:02X}" for one in name.encode())
    return f"%2E{text[1:]}" if text.startswith(".") else text


def decoded(part: str) -> str | None:
    """Decode a name; None if the text isn't an encoded name.

    >>> decoded("order%2F42"), decoded("a%2f"), decoded(".sessions")
    ('order/42', None, None)
    """
    try:
        raw = re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), part.encode())
        name = raw.decode()
    except UnicodeError:
        return None
    return name if name and encoded(name) == part else None


def mark_of(layout: int) -> str:
    """Return the name of the node that exists if this layout, or a later one, is in use.

    >>> mark_of(2)
    '.layout-2'
    """
    return f".layout-{layout}"


def digest(claim_id: str) -> str:
    """Return the public digest of a claim's secret id. It finds the node, but gives no rights."""
    return hashlib.sha256(claim_id.encode()).hexdigest()[:32]


def beginning(claim: Claim, trying: bool, recipe: str) -> str:
    """Return the name of this claim's node, to which the server appends its number."""
    mark, spec = digest(claim.id), claim.spec
    if recipe == CURATOR:
        parts = (mark[:8], mark[8:12], mark[12:16], mark[16:20], mark[20:])
        return f"_c_{'-'.join(parts)}-lock-"
    reads = spec.kind is Kind.RWLOCK and spec.weight < spec.capacity
    return (
        f"{mark}-{_LETTERS[spec.kind]}-{spec.capacity}-{spec.weight}-{'t' if trying else 'w'}"
        f"__{'r' if reads else ''}lock__"
    )


def entries(nodes: Iterable[str], recipe: str, name: str) -> list[Entry]:
    """Return the claims among these nodes, unordered.

    Raise ``ConfigError`` if a node was made by another recipe.
    """
    read = _by_curator if recipe == CURATOR else _by_kazoo
    found = []
    for node in nodes:
        entry = read(node, name)
        if entry is not None:
            found.append(entry)
    return found


def _by_kazoo(node: str, name: str) -> Entry | None:
    ours = _OURS.fullmatch(node)
    if ours is not None:
        mark, letter, capacity, weight, way, number = ours.groups()
        kind = _KINDS[letter]
        return Entry(node, int(number), kind, int(capacity), int(weight), mark, way == "t")
    theirs = _KAZOO.fullmatch(node)
    if theirs is not None:
        return Entry(node, int(theirs[2]), "", 1, 1, reads=bool(theirs[1]))
    if _CURATOR.fullmatch(node) or _CURATOR_OTHERS.fullmatch(node):
        raise in_use(name, "Curator's", "recipe=curator")
    return None


def _by_curator(node: str, name: str) -> Entry | None:
    theirs = _CURATOR.fullmatch(node)
    if theirs is not None:
        mark = node.removeprefix("_c_")[:36].replace("-", "")
        return Entry(node, int(theirs[1]), Kind.LOCK, 1, 1, mark)
    if _KAZOO.fullmatch(node):
        raise in_use(name, "kazoo's", "recipe=kazoo, the default")
    if _CURATOR_OTHERS.fullmatch(node):
        raise in_use(name, "Curator's read-write lock's or semaphore's", "another name")
    return None


def in_use(name: str, whose: str, remedy: str) -> ConfigError:
    """Return the error for a name that another recipe uses."""
    return ConfigError(
        f"{name!r} is in use by {whose} nodes, which this recipe would not wait for; use {remedy}"
    )


def simple_in_use(name: str) -> ConfigError:
    """Return the error for a name that the simple recipe uses."""
    return in_use(name, "the simple recipe's", "recipe=simple")


def later(number: int, than: int) -> bool:
    """True if ``number`` was assigned after ``than``. Numbers wrap around at 2 to the 31st.

    >>> later(7, 5), later(-(2**31), 2**31 - 1), later(5, 5)
    (True, True, False)
    """
    return 0 < (number - than) % _TURN < _TURN // 2
