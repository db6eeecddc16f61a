"""The arenas, one file each: a store, its contenders, and our targets."""

from __future__ import annotations

from ..contenders import Arena
from .embedded import EMBEDDED
from .mysql import MYSQL
from .postgres import POSTGRES
from .redis import REDIS
from .zookeeper import ZOOKEEPER

ARENAS: dict[str, Arena] = {
    arena.name: arena for arena in (EMBEDDED, REDIS, ZOOKEEPER, POSTGRES, MYSQL)
}
