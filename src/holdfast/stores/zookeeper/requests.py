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
    #: Id of the session that the node ends with; 0: the node isn't ephemeral.
    session: int
    #: The number of writes to the node's data since its creation.
    version: int = 0
    #: True if the node has, or had, child nodes.
    folder: bool = False
    #: Id of the transaction that last wrote the node's data.
    mzxid: int = 0
    #: The number of the node's child nodes.
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
    """Create a node; the answer is `Made`.

    ``ephemeral``: the node ends with our session; ``numbered``: the server adds a number."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    numbered: bool = False


class Folder(NamedTuple):
    """Create a node that the server removes when it has been empty for a while; answer: `Made`."""

    path: str


class Children(NamedTuple):
    """List the child nodes; the answer is a list of names.

    ``watch(False)`` is called once: when the list changes, or when the watch is lost."""

    path: str
    watch: Callable[[bool], None] | None = None


class Get(NamedTuple):
    """Read a node; the answer is `Found`.

    ``watch(gone)`` is called once: when the node changes, or when the watch is lost."""

    path: str
    watch: Callable[[bool], None] | None = None


class Look(NamedTuple):
    """Read the metadata of a node; the answer is a `Stat`."""

    path: str


class Put(NamedTuple):
    """Write the data of a node; the answer is a `Stat`.

    With a ``version``: only if that is the node's current version."""

    path: str
    data: bytes
    version: int = -1


class Delete(NamedTuple):
    """Delete a node; the answer is True.

    With a ``version``: only if that is the node's current version."""

    path: str
    version: int = -1


class Sync(NamedTuple):
    """Make later reads see all writes acknowledged before this request; the answer is True."""

    path: str


class Check(NamedTuple):
    """As a part of a `Multi`, require that the node exists; the answer is True.

    With a ``version``: that must be the node's current version."""

    path: str
    version: int = -1


class Multi(NamedTuple):
    """Carry out all parts or none; the answer is a list with an answer for each part.

    After a refusal, one of these answers is the reason. The answer to a `Create` in a `Multi` is
    the path.
    """

    parts: tuple[Put | Check | Create | Delete, ...]


Request: TypeAlias = Create | Folder | Children | Get | Look | Put | Delete | Sync | Multi
