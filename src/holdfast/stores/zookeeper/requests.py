"""Requests to ZooKeeper and their possible answers, without a driver.

Requests that are sent together are carried out in their order, and a read that follows a write of
the same session sees at least that write.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class Stat(NamedTuple):
    """The server's metadata of a node. Times are seconds by the leader's clock."""

    czxid: int
    created: float
    changed: float
    #: The session whose end also ends the node; 0: none.
    session: int
    #: The number of writes to its data since its creation.
    version: int = 0
    #: True if it has, or had, child nodes.
    folder: bool = False
    #: The transaction of the last write to its data.
    mzxid: int = 0
    #: The number of its child nodes.
    children: int = 0


class Made(NamedTuple):
    """A node was created at this path."""

    path: str
    stat: Stat


class Found(NamedTuple):
    """The data of a node."""

    data: bytes
    stat: Stat


class No(enum.StrEnum):
    """A refusal with its reason. The refused request changed nothing."""

    NODE = "there is no such node"
    ROOM = "the node exists already"
    LEAF = "an ephemeral node can't have child nodes"
    VERSION = "the node was written to, or made again, in the meantime"
    RIGHT = "the rights don't allow it"
    CHILDREN = "the node isn't empty"
    OTHER = "another part of the request was refused"


class Create(NamedTuple):
    """Answers `Made`.

    ``ephemeral``: the node ends with our session; ``numbered``: the server adds a number."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    numbered: bool = False


class Folder(NamedTuple):
    """Answers `Made`: a node that the server removes some time after it has become empty."""

    path: str


class Children(NamedTuple):
    """Answers a list of names. ``watch(False)`` is called once, on a change or a lost watch."""

    path: str
    watch: Callable[[bool], None] | None = None


class Get(NamedTuple):
    """Answers `Found`. ``watch(gone)`` is called once, on a change or a lost watch."""

    path: str
    watch: Callable[[bool], None] | None = None


class Look(NamedTuple):
    """Answers a `Stat`."""

    path: str


class Put(NamedTuple):
    """Answers a `Stat`. With a ``version``: only if that is the node's current version."""

    path: str
    data: bytes
    version: int = -1


class Delete(NamedTuple):
    """Answers True. With a ``version``: only if that is the node's current version."""

    path: str
    version: int = -1


class Sync(NamedTuple):
    """Answers True: a later read sees all writes that were acknowledged before."""

    path: str


class Check(NamedTuple):
    """Answers True if the node is there: a part of `Multi`.

    With a ``version``: only if that is the node's current version."""

    path: str
    version: int = -1


class Multi(NamedTuple):
    """All or nothing. Answers a list; after a refusal one of its parts is the reason.

    A `Create` in it answers the path.
    """

    parts: tuple[Put | Check | Create | Delete, ...]


Request: TypeAlias = Create | Folder | Children | Get | Look | Put | Delete | Sync | Multi
