"""Requests to ZooKeeper and their possible answers, without a driver.

Requests that are sent together are carried out in their order, and a read that follows a write of
the same session sees at least that write.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class Stat(NamedTuple):
    """What the server knows of a node. Times are seconds by the leader's clock."""

    czxid: int
    created: float
    changed: float
    #: The session whose end is the node's; 0: none.
    session: int
    #: How often its data were written since it was made.
    version: int = 0
    #: Has it, or had it, child nodes?
    folder: bool = False
    #: The transaction that wrote its data last.
    mzxid: int = 0
    #: How many nodes are in it.
    children: int = 0


class Made(NamedTuple):
    """A node was created, and is called so."""

    path: str
    stat: Stat


class Found(NamedTuple):
    """What is in a node."""

    data: bytes
    stat: Stat


class No(enum.StrEnum):
    """A refusal: it changes nothing, and says why."""

    NODE = "there is no such node"
    ROOM = "there is such a node already"
    LEAF = "a node that ends with a session has no others in it"
    VERSION = "it was written to meanwhile, or is another one of the same name"
    RIGHT = "the rights don't allow it"
    CHILDREN = "the node isn't empty"
    OTHER = "another part of it was refused"


class Create(NamedTuple):
    """Answers `Made`. ``ephemeral``: it ends with our session, and the server adds a number."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    numbered: bool = False


class Folder(NamedTuple):
    """Answers `Made`: a node that the server removes some time after it has become empty."""

    path: str


class Children(NamedTuple):
    """Answers a list of names. ``watch(False)`` is called once, when that changes or is lost."""

    path: str
    watch: Callable[[bool], None] | None = None


class Get(NamedTuple):
    """Answers `Found`. ``watch(gone)`` is called once, when that changes or is lost."""

    path: str
    watch: Callable[[bool], None] | None = None


class Look(NamedTuple):
    """Answers a `Stat`."""

    path: str


class Put(NamedTuple):
    """Answers a `Stat`. With a ``version``: only if its data were written so often."""

    path: str
    data: bytes
    version: int = -1


class Delete(NamedTuple):
    """Answers True. With a ``version``: only if its data were written so often."""

    path: str
    version: int = -1


class Sync(NamedTuple):
    """Answers True: a read that follows sees all that was acknowledged before."""

    path: str


class Check(NamedTuple):
    """Answers True if the node is there: a part of `Multi`. With a ``version``: only if its data
    were written so often."""

    path: str
    version: int = -1


class Multi(NamedTuple):
    """All or nothing. Answers a list; if it is refused, one of its parts says why.

    A `Create` in it answers the path.
    """

    parts: tuple[Put | Check | Create | Delete, ...]


Request: TypeAlias = Create | Folder | Children | Get | Look | Put | Delete | Sync | Multi
