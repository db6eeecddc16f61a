"""The list of all bugs that are planted into one store, dialect, command or data type."""

from __future__ import annotations

from .planted_across import ACROSS
from .planted_classes import CLASSES
from .planted_cli import CLI
from .planted_clocks import CLOCKS
from .planted_closing import CLOSING
from .planted_damage import DAMAGE
from .planted_dialects import DIALECTS
from .planted_ends import ENDS
from .planted_guards import GUARDS
from .planted_guards_cache import GUARDS_CACHE
from .planted_guards_mysql import GUARDS_MYSQL
from .planted_guards_postgres import GUARDS_POSTGRES
from .planted_guards_redis import GUARDS_REDIS
from .planted_guards_sqlite import GUARDS_SQLITE
from .planted_limits import LIMITED
from .planted_loops import LOOPS
from .planted_mended import MENDED
from .planted_mysql import MYSQL
from .planted_postgres import POSTGRES
from .planted_queue_judge import QUEUE_JUDGE
from .planted_queues import QUEUES
from .planted_queues_mysql import QUEUES_MYSQL
from .planted_queues_postgres import QUEUES_POSTGRES
from .planted_queues_redis import QUEUES_REDIS
from .planted_queues_sqlite import QUEUES_SQLITE
from .planted_queues_zookeeper import QUEUES_ZOOKEEPER
from .planted_reached import REACHED
from .planted_redis import REDIS
from .planted_redisson import REDISSON
from .planted_rowlock import ROWLOCK
from .planted_simple import SIMPLE
from .planted_sqlite import SQLITE
from .planted_undone import UNDONE
from .planted_workers import WORKERS
from .planted_zookeeper import ZOOKEEPER

STORES = [
    *CLASSES,
    *ACROSS,
    *CLI,
    *CLOCKS,
    *DAMAGE,
    *CLOSING,
    *LIMITED,
    *LOOPS,
    *DIALECTS,
    *ENDS,
    *GUARDS,
    *GUARDS_CACHE,
    *GUARDS_MYSQL,
    *GUARDS_POSTGRES,
    *GUARDS_REDIS,
    *GUARDS_SQLITE,
    *MYSQL,
    *POSTGRES,
    *QUEUES,
    *MENDED,
    *WORKERS,
    *QUEUES_MYSQL,
    *QUEUES_POSTGRES,
    *QUEUES_REDIS,
    *QUEUES_SQLITE,
    *SQLITE,
    *UNDONE,
    *QUEUES_ZOOKEEPER,
    *QUEUE_JUDGE,
    *REACHED,
    *REDIS,
    *REDISSON,
    *ROWLOCK,
    *SIMPLE,
    *ZOOKEEPER,
]
