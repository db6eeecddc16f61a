"""The examination of a server for ``holdfast doctor``: findings, with remedies.

The examination uses separate connections and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....core.finding import FULL, Finding, Found, Table, clock, fail, latency, lines, ok, run, warn
from ....errors import ConfigError
from ....runtime.blocking import boottime, walltime
from ....url import StoreURL
from ..complaints import MISSING, ServerSaid, complaint
from ..config import Settings, settings
from ..replies import Rows
from ..schema import QUEUE_VERSION, REFRESH_VERSION, VERSION, layout_of, refuse_newer, script
from ..statements import literal
from .link import ThreadLink, dial

WITHIN_S = 5.0
IDLE_S = 60
#: The oldest versions that the procedures are written for.
OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0, 29)}
#: The server's clock as seconds since 1970. In UTC, because other time zones repeat hours.
_CLOCK = "SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) / 1e6"
_TABLES = "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = DATABASE()"
#: Counts the names whose line and claims contradict each other. It is one statement, so all rows
#: are from the same moment.
_WRONG = """
SELECT COUNT(*) FROM (
  SELECT l.name FROM {prefix}_lines l LEFT JOIN (
      SELECT name, COUNT(*) AS claims, SUM(NOT held) AS waiters, SUM(IF(held, weight, 0)) AS used
      FROM {prefix}_claims GROUP BY name) c ON c.name = l.name
    WHERE l.claims <> COALESCE(c.claims, 0) OR l.waiters <> COALESCE(c.waiters, 0)
      OR (l.used <> COALESCE(c.used, 0) AND l.lone IS NULL)
  UNION ALL
  SELECT DISTINCT c.name FROM {prefix}_claims c LEFT JOIN {prefix}_lines l ON l.name = c.name
    WHERE l.name IS NULL) odd
"""
#: Recommended maximum of a node's innodb_lock_wait_timeout, in seconds. If a node fails to abort a
#: transaction that blocks another one, no transaction commits until this time has passed.
STALL_S = 5


class Visit:
    """One examination: a connection, and the variables and counters of the server."""

    def __init__(self, found: Settings) -> None:
        self.settings = found
        self.link: ThreadLink = dial(found, WITHIN_S)
        self.variables = self._table("SHOW SESSION VARIABLES")
        self.status = self._table("SHOW GLOBAL STATUS")

    def ask(self, sql: str) -> Rows:
        """Return the rows of a reply."""
        return self.link.rows(sql, WITHIN_S)

    def _table(self, sql: str) -> dict[str, str]:
        return {str(name): str(value) for name, value in self.ask(sql)}

    @property
    def kind(self) -> str:
        """The product: MariaDB or MySQL."""
        return "MariaDB" if "mariadb" in self.variables["version"].lower() else "MySQL"

    def number(self, name: str, otherwise: int = 0) -> int:
        """Return a variable or counter as a number."""
        value = self.variables.get(name, self.status.get(name, ""))
        return int(value) if value.isdigit() else otherwise

    def on(self, name: str) -> bool:
        """True if this variable is on."""
        return self.variables.get(name, "OFF").upper() in ("ON", "1", "YES")


def examine(url: StoreURL) -> Iterator[Finding]:
    """Yield the findings about all parts, in the order in which the parts are needed."""
    visit = Visit(settings(url))
    try:
        yield from run(visit, _SERVER, _PARTS)
    except ServerSaid as said:
        raise complaint(said, visit.settings.label) from said
    finally:
        visit.link.close()


def _version(visit: Visit) -> Finding:
    version, oldest = visit.variables["version"], OLDEST[visit.kind]
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    text = f"{visit.kind} {version}"
    if found < oldest:
        return fail(f"{text}, older than {'.'.join(map(str, oldest))}", "a newer server")
    return ok(text)


def _innodb(visit: Visit) -> Iterator[Finding]:
    engines = visit.ask("SELECT support FROM information_schema.engines WHERE engine = 'InnoDB'")
    if not engines or str(engines[0][0]) not in ("YES", "DEFAULT"):
        yield fail("it has no InnoDB", "enable InnoDB")
    only = visit.variables.get("enforce_storage_engine") or "InnoDB"
    if only.lower() != "innodb":
        text = f"enforce_storage_engine is {only}, but holdfast needs tables of InnoDB"
        yield fail(text, "remove that setting")


def _role(visit: Visit) -> Iterator[Finding]:
    if visit.on("read_only"):
        remedy = "an address that leads to the primary"
        yield fail("it is read-only, perhaps a replica", remedy)
    for name in ("innodb_read_only", "tx_read_only", "transaction_read_only"):
        if visit.on(name):
            yield fail(f"{name} is on, so nothing is written", "turn it off")


def _binlog(visit: Visit) -> Found:
    bad = visit.on("log_bin") and visit.variables.get("binlog_format") == "STATEMENT"
    text = "its binary log records statements, which InnoDB refuses for READ COMMITTED"
    return bad and fail(text, "binlog_format = ROW or MIXED")


def _clock(visit: Visit) -> Finding:
    ((theirs,),) = visit.ask(_CLOCK)
    return clock(float(theirs) - walltime())


def _identity(visit: Visit) -> Found:
    """Check that two connections lead to the same server."""
    second = dial(visit.settings, WITHIN_S)
    try:
        which = "server_uid" if "server_uid" in visit.variables else "server_uuid"
        rows = second.rows(f"SHOW GLOBAL VARIABLES LIKE '{which}'", WITHIN_S)
    finally:
        second.close()
    remedy = "an address that leads to one of them; with Galera, to one node for all"
    other = bool(rows) and str(rows[0][1]) != visit.variables.get(which)
    return other and warn("two connections lead to two servers", remedy)


def _isolation(visit: Visit) -> Found:
    """Check that a session has the isolation level that was requested."""
    level = visit.variables.get("tx_isolation") or visit.variables.get("transaction_isolation")
    text = f"a session stays at {level}, although READ COMMITTED was requested: is there a proxy?"
    return level != "READ-COMMITTED" and warn(text, "let SET SESSION through")


def _durability(visit: Visit) -> Finding:
    written = visit.number("innodb_flush_log_at_trx_commit", 1)
    if written != 1:
        text = (
            f"innodb_flush_log_at_trx_commit is {written}: the end of the "
            f"{'machine' if written == 2 else 'server'} can lose the last second, with its grants"
        )
        return warn(text, "set it to 1, or rely on fences")
    if visit.on("log_bin") and visit.number("sync_binlog", 1) != 1:
        text = "sync_binlog isn't 1: after a crash, a replica can have other locks than the primary"
        return warn(text, "set it to 1")
    return ok("each commit is on the disk before it is acknowledged")


def _galera(visit: Visit) -> Iterator[Finding]:
    if not visit.on("wsrep_on"):
        return
    state = visit.status.get("wsrep_cluster_status", "unknown")
    size = visit.status.get("wsrep_cluster_size", "?")
    text = f"a node of a Galera cluster of {size}, {state}"
    if visit.status.get("wsrep_ready", "OFF") != "ON" or state != "Primary":
        yield fail(f"{text}, not ready", "check whether it has lost the other nodes")
    else:
        remedy = "synchronize the nodes' clocks by NTP, and write to one node only"
        yield warn(f"{text}: each node ends leases by its own clock", remedy)
    stalls = int(visit.ask("SELECT @@global.innodb_lock_wait_timeout")[0][0])
    if stalls > STALL_S:
        text = f"it is {stalls} s: two nodes that insert one row can stall all nodes for that time"
        remedy = f"SET GLOBAL innodb_lock_wait_timeout = {STALL_S}, on each node"
        yield warn(text, remedy, "innodb_lock_wait_timeout")


def _connections(visit: Visit) -> Finding:
    used, most = visit.number("Threads_connected"), visit.number("max_connections", 1)
    text = f"{used} of {most} connections are used"
    return warn(text, "raise max_connections") if used > FULL * most else ok(text)


def _idle(visit: Visit) -> Found:
    idle = visit.number("wait_timeout", 28_800)
    text = f"wait_timeout is {idle} s: the server ends idle connections, which holdfast makes again"
    return idle < IDLE_S and warn(text, f"{IDLE_S} s or more")


def _schema(visit: Visit) -> Iterator[Finding]:
    prefix = visit.settings.prefix
    fold = str.lower if visit.number("lower_case_table_names") else str
    ours = set(map(fold, re.findall(r"CREATE TABLE IF NOT EXISTS (\S+)", script(prefix))))
    try:
        refuse_newer(visit.ask(layout_of(prefix)), visit.settings.label)
    except ConfigError as later:
        yield fail(str(later))
        return
    tables = visit.ask(_TABLES)
    rows = [(str(name), str(engine)) for name, engine in tables if fold(str(name)) in ours]
    odd = [name for name, engine in rows if engine != "InnoDB"]
    if odd:
        text = f"{', '.join(odd)}: not an InnoDB table, so nothing is locked"
        yield fail(text, f"ALTER TABLE {odd[0]} ENGINE=InnoDB", "engine")
        return
    # For a name without claims and jobs, these calls change nothing.
    nothing = {
        "": f"CALL {prefix}_leave_{VERSION}(X'00', {literal(bytes(16))}, 0, 0, 0)",
        " for queues": f"CALL {prefix}_queue_extend_{QUEUE_VERSION}(X'00', X'')",
        " for refresh guards": f"CALL {prefix}_refresh_prolong_{REFRESH_VERSION}(X'')",
    }
    for which, sql in nothing.items():
        try:
            visit.ask(sql)
        except ServerSaid as said:
            if said.code not in MISSING:
                yield fail(str(complaint(said, visit.settings.label)), subject="rights")
                return
            text = f"tables and procedures{which} don't exist yet: the first use makes them"
            remedy = "or an administrator does: holdfast schema"
            yield warn(text, remedy) if rows and not which else ok(f"{text}, {remedy}")
            return
    yield ok(f"tables and procedures of version {VERSION} exist")
    ((wrong,),) = visit.ask(_WRONG.format(prefix=prefix))
    yield lines(int(wrong))._replace(subject="lines")


_BUSY = "is the machine or the network very busy?"
_SERVER: Table[Visit] = {"server": _version, "engine": _innodb, "role": _role, "binlog": _binlog}
_PARTS: Table[Visit] = {
    "latency": lambda visit: latency(boottime, lambda: visit.ask("SELECT 1"), _BUSY),
    "clock": _clock,
    "identity": _identity,
    "isolation": _isolation,
    "durability": _durability,
    "galera": _galera,
    "connections": _connections,
    "wait_timeout": _idle,
    "schema": _schema,
}
