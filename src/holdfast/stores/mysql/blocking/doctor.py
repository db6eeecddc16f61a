"""An examination of a server: each part in words, and what to do about it.

It asks over connections of its own and changes nothing.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator

from ....core.finding import Finding, Level
from ....runtime.blocking import boottime, walltime
from ....url import StoreURL
from ..complaints import MISSING, ServerSaid, complaint
from ..config import Settings, settings
from ..replies import Rows
from ..schema import QUEUE_VERSION, REFRESH_VERSION, VERSION
from ..statements import literal
from .link import ThreadLink, dial

WITHIN_S = 5.0
ROUNDS = 20
SLOW_S, SLOWEST_S = 0.05, 0.25
CLOCK_S = 1.0
IDLE_S = 60
FULL = 0.9
#: The oldest versions that the procedures are written for.
OLDEST = {"MariaDB": (10, 6), "MySQL": (8, 0, 29)}
#: The server's clock as seconds since 1970. In UTC, because hours of other zones come twice.
_CLOCK = "SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) / 1e6"
_TABLES = "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = DATABASE()"
_VARIABLES = (
    "version",
    "log_bin",
    "binlog_format",
    "read_only",
    "innodb_read_only",
    "tx_read_only",
    "transaction_read_only",
    "enforce_storage_engine",
    "lower_case_table_names",
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "wait_timeout",
    "max_connections",
    "wsrep_on",
    "tx_isolation",
    "transaction_isolation",
    "server_uid",
    "server_uuid",
)
#: Names whose line and claims contradict each other: all of it as one look at one moment.
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
_LINES = ("lines", "claims", "tombs")
_JOBS = ("queues", "counts", "tracks", "jobs", "dead", "ids", "lanes", "takes")
_VALUES = ("refresh_duties", "refresh_values", "refresh_tombs", "refresh_tallies")
_STATUS = ("Threads_connected", "wsrep_ready", "wsrep_cluster_status", "wsrep_cluster_size")


#: Where a node fails to abort a transaction for another one, none commits for longer than this.
STALL_S = 5


class Visit:
    """One examination: a connection, and what the server says of itself."""

    def __init__(self, found: Settings) -> None:
        self.settings = found
        self.link: ThreadLink = dial(found, WITHIN_S)
        self.variables = self._table("SHOW SESSION VARIABLES", _VARIABLES)
        self.status = self._table("SHOW GLOBAL STATUS", _STATUS)

    def ask(self, sql: str) -> Rows:
        """The rows of an answer."""
        return self.link.rows(sql, WITHIN_S)

    def _table(self, sql: str, names: tuple[str, ...]) -> dict[str, str]:
        return {str(name): str(value) for name, value in self.ask(sql) if str(name) in names}

    @property
    def kind(self) -> str:
        """Which of the two it is."""
        return "MariaDB" if "mariadb" in self.variables["version"].lower() else "MySQL"

    def number(self, name: str, otherwise: int = 0) -> int:
        """A variable or counter as a number."""
        value = self.variables.get(name, self.status.get(name, ""))
        return int(value) if value.isdigit() else otherwise

    def on(self, name: str) -> bool:
        """Is this variable set?"""
        return self.variables.get(name, "OFF").upper() in ("ON", "1", "YES")


def examine(url: StoreURL) -> Iterator[Finding]:
    """Look at every part of a server, in the order in which they are needed."""
    visit = Visit(settings(url))
    try:
        usable = True
        for finding in _server(visit):
            yield finding
            usable = usable and finding.level is not Level.FAIL
        if usable:
            yield from _reach(visit)
            yield from _keeping(visit)
            yield from _galera(visit)
            yield from _connections(visit)
            yield from _schema(visit)
    except ServerSaid as said:
        raise complaint(said, visit.settings.label) from said
    finally:
        visit.link.close()


def _server(visit: Visit) -> Iterator[Finding]:
    version = visit.variables["version"]
    oldest = OLDEST[visit.kind]
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    text = f"{visit.kind} {version}"
    if found < oldest:
        wanted = ".".join(map(str, oldest))
        yield Finding(Level.FAIL, "server", f"{text}, older than {wanted}", "a newer server")
    else:
        yield Finding(Level.OK, "server", text)
    engines = visit.ask("SELECT support FROM information_schema.engines WHERE engine = 'InnoDB'")
    if not engines or str(engines[0][0]) not in ("YES", "DEFAULT"):
        yield Finding(Level.FAIL, "engine", "it has no InnoDB", "turn InnoDB on")
    if visit.on("read_only"):
        text = "it is read only, a replica perhaps"
        yield Finding(Level.FAIL, "role", text, "an address that leads to the primary")
    for name in ("innodb_read_only", "tx_read_only", "transaction_read_only"):
        if visit.on(name):
            yield Finding(Level.FAIL, "role", f"{name} is on, so nothing is written", "turn it off")
    only = visit.variables.get("enforce_storage_engine") or "InnoDB"
    if only.lower() != "innodb":
        text = f"enforce_storage_engine is {only}, and holdfast needs tables of InnoDB"
        yield Finding(Level.FAIL, "engine", text, "take it away")
    if visit.on("log_bin") and visit.variables.get("binlog_format") == "STATEMENT":
        text = "its binary log is kept as statements, which InnoDB refuses for READ COMMITTED"
        yield Finding(Level.FAIL, "binlog", text, "binlog_format = ROW or MIXED")


def _reach(visit: Visit) -> Iterator[Finding]:
    times = []
    for _ in range(ROUNDS):
        begun = boottime()
        visit.ask("SELECT 1")
        times.append(boottime() - begun)
    middle, worst = statistics.median(times), max(times)
    text = f"a request takes {middle * 1e3:.2f} ms, {worst * 1e3:.2f} ms at worst of {ROUNDS}"
    slow = middle > SLOW_S or worst > SLOWEST_S
    remedy = "is the machine or the network very busy?" if slow else ""
    yield Finding(Level.WARN if slow else Level.OK, "latency", text, remedy)
    ((theirs,),) = visit.ask(_CLOCK)
    apart = abs(float(theirs) - walltime())
    if apart > CLOCK_S:
        text = f"the server's clock and ours are {apart:.1f} s apart: one will be put right"
        yield Finding(Level.WARN, "clock", text, "set both by NTP")
    yield from _identity(visit)


def _identity(visit: Visit) -> Iterator[Finding]:
    """Where do connections lead, and do they work as was asked for?"""
    second = dial(visit.settings, WITHIN_S)
    try:
        which = "server_uid" if "server_uid" in visit.variables else "server_uuid"
        rows = second.rows(f"SHOW GLOBAL VARIABLES LIKE '{which}'", WITHIN_S)
    finally:
        second.close()
    if rows and str(rows[0][1]) != visit.variables.get(which):
        text = "two connections lead to two servers"
        remedy = "an address that leads to one of them; with Galera, to one node for all"
        yield Finding(Level.WARN, "identity", text, remedy)
    level = visit.variables.get("tx_isolation") or visit.variables.get("transaction_isolation")
    if level != "READ-COMMITTED":
        text = f"a session stays at {level} though READ COMMITTED was asked for: is there a proxy?"
        yield Finding(Level.WARN, "isolation", text, "let SET SESSION through")


def _keeping(visit: Visit) -> Iterator[Finding]:
    written = visit.number("innodb_flush_log_at_trx_commit", 1)
    text = "each commit is on the disk before it is acknowledged"
    if written != 1:
        text = (
            f"innodb_flush_log_at_trx_commit is {written}: the end of the "
            f"{'machine' if written == 2 else 'server'} can lose the last second, grants included"
        )
        yield Finding(Level.WARN, "durability", text, "set it to 1, or rely on fences")
    elif visit.on("log_bin") and visit.number("sync_binlog", 1) != 1:
        text = "sync_binlog isn't 1: after a crash a replica can have other locks than the primary"
        yield Finding(Level.WARN, "durability", text, "set it to 1")
    else:
        yield Finding(Level.OK, "durability", text)


def _galera(visit: Visit) -> Iterator[Finding]:
    if not visit.on("wsrep_on"):
        return
    state = visit.status.get("wsrep_cluster_status", "unknown")
    size = visit.status.get("wsrep_cluster_size", "?")
    text = f"a node of a Galera cluster of {size}, {state}"
    if visit.status.get("wsrep_ready", "OFF") != "ON" or state != "Primary":
        yield Finding(Level.FAIL, "galera", f"{text}, not ready", "has it lost the others?")
    else:
        remedy = "keep the nodes' clocks together by NTP, and write to one of them"
        yield Finding(Level.WARN, "galera", f"{text}: leases end by each node's own clock", remedy)
    stalls = int(visit.ask("SELECT @@global.innodb_lock_wait_timeout")[0][0])
    if stalls > STALL_S:
        text = f"it is {stalls} s: two nodes that add one row at once may stall all for so long"
        remedy = f"SET GLOBAL innodb_lock_wait_timeout = {STALL_S}, on each node"
        yield Finding(Level.WARN, "innodb_lock_wait_timeout", text, remedy)


def _connections(visit: Visit) -> Iterator[Finding]:
    used, most = visit.number("Threads_connected"), visit.number("max_connections", 1)
    text = f"{used} of {most} connections are used"
    if used > FULL * most:
        yield Finding(Level.WARN, "connections", text, "raise max_connections")
    else:
        yield Finding(Level.OK, "connections", text)
    idle = visit.number("wait_timeout", 28_800)
    if idle < IDLE_S:
        text = f"wait_timeout is {idle} s: idle connections are ended, and made anew"
        yield Finding(Level.WARN, "wait_timeout", text, f"{IDLE_S} s or more")


def _schema(visit: Visit) -> Iterator[Finding]:
    prefix = visit.settings.prefix
    fold = str.lower if visit.number("lower_case_table_names") else str
    ours = {fold(f"{prefix}_{name}") for name in (*_LINES, *_JOBS, *_VALUES)}
    tables = visit.ask(_TABLES)
    rows = [(str(name), str(engine)) for name, engine in tables if fold(str(name)) in ours]
    odd = [name for name, engine in rows if engine != "InnoDB"]
    if odd:
        text = f"{', '.join(odd)}: another engine than InnoDB, so nothing is locked"
        yield Finding(Level.FAIL, "engine", text, f"ALTER TABLE {odd[0]} ENGINE=InnoDB")
        return
    # Of a name that nobody has they leave nothing, and change nothing.
    nothing = {
        "": f"CALL {prefix}_leave_{VERSION}(X'00', {literal(bytes(16))}, 0, 0, 0)",
        " for queues": f"CALL {prefix}_queue_extend_{QUEUE_VERSION}(X'00', X'')",
        " for refresh guards": f"CALL {prefix}_refresh_prolong_{REFRESH_VERSION}(X'')",
    }
    for which, sql in nothing.items():
        try:
            visit.ask(sql)
        except ServerSaid as said:
            if said.code in MISSING:
                words = f"tables and procedures{which} aren't there yet: the first use makes them"
                remedy = "or an administrator does: holdfast schema"
                level = Level.WARN if rows and not which else Level.OK
                yield Finding(level, "schema", words, remedy)
                return
            yield Finding(Level.FAIL, "rights", str(complaint(said, visit.settings.label)))
            return
    yield Finding(Level.OK, "schema", f"tables and procedures of version {VERSION} are there")
    yield _compared(visit)


def _compared(visit: Visit) -> Finding:
    """Do the rows of names say what those of their claims say?"""
    ((wrong,),) = visit.ask(_WRONG.format(prefix=visit.settings.prefix))
    if not int(wrong):
        return Finding(Level.OK, "lines", "each says what its claims say")
    return Finding(
        Level.WARN,
        "lines",
        f"{int(wrong):,} names whose line says something else than their claims: somebody has "
        "changed the tables by hand",
        "nothing: whoever next wants the name puts its line right",
    )
