"""Errors of the server, and the exception that each becomes for the caller."""

from __future__ import annotations

import struct

from ...core.queue.model import TooLarge
from ...errors import ConfigError, HoldfastError, StoreUnavailable
from ...runtime import tls
from .config import Settings

#: The server rolled back the whole transaction. The cause is a deadlock, another node of a Galera
#: cluster that was first, a row that another transaction kept locked, or a row that changed after
#: its first read. 1048: the procedure locked a row that another transaction had just inserted, a
#: moment before InnoDB made the row readable, and so it read NULL.
ROLLED_BACK = frozenset({1213, 1205, 1020, 3572, 1048})
#: Errors about a table, a procedure or a column that doesn't exist, or not yet.
MISSING = frozenset({1146, 1305, 1054})
#: The error for a request that is longer than a packet may be.
_TOO_LONG = 1153
#: Errors after which the connection is of no use.
OVER = frozenset({1053, 1077, 1079, 1080, 1152, _TOO_LONG, 1159, 1161, 1317, 1927, 3169, 4031})
#: The error of a driver for a server without TLS.
_NO_TLS = 2026
#: Errors of the driver, not of the server: the connection broke, or was never made.
DRIVER = range(2000, 3000)


#: Exceptions of a driver for a reply that is cut short or out of order. A Galera node sends such a
#: reply if it rolls back a transaction in the middle of the reply: the end of the reply comes in
#: place of a column.
GARBLED = (struct.error, IndexError, AssertionError, ValueError, TypeError)


class ServerSaid(Exception):
    """An error of the server: its number and its message."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


#: Errors that end by themselves, or after an administrator acts: number -> the cause.
_UNAVAILABLE = {
    1205: "another session kept the row locked",
    1213: "conflicts with other transactions rolled it back each time",
    1020: "conflicts with other transactions rolled it back each time",
    1048: "conflicts with other transactions rolled it back each time",
    3572: "another session kept the row locked",
    1040: "it has reached its limit of connections (max_connections)",
    1203: "this user has reached its limit of connections (max_user_connections)",
    1226: "this user has reached a limit of its account (such as MAX_USER_CONNECTIONS)",
    1290: "it is read-only, perhaps a replica",
    1836: "it is read-only, perhaps a replica",
    1047: "this node of the Galera cluster isn't ready; it may have lost the other nodes",
    1021: "its disk is full",
    1114: "its disk or its tablespace is full",
    1041: "it is out of memory",
    1037: "it is out of memory",
    1206: "it has no room left for locks (innodb_buffer_pool_size)",
    1969: "its max_statement_time ended the request, and holdfast could not lift that limit",
    3024: "its max_execution_time ended the request, and holdfast could not lift that limit",
}
_TABLES = (
    "locks need EXECUTE, SELECT, INSERT, UPDATE and DELETE on the database; making the tables "
    "needs CREATE and CREATE ROUTINE as well"
)
#: Errors that last until a user or an administrator changes something: number -> the cause.
_WRONG = {
    1044: "the user may not use this database",
    1045: "the user or the password is wrong, or this user must connect with TLS "
    "(ssl_mode=verify_identity)",
    1698: "the user or the password is wrong",
    1046: "no database is named for the tables of holdfast",
    1049: "there is no such database; create it",
    1142: f"the user lacks a right to a table; {_TABLES}",
    1143: f"the user lacks a right to a column; {_TABLES}",
    1227: f"the user lacks a right; {_TABLES}",
    1370: f"the user may not call or make a procedure; {_TABLES}",
    1665: "its binary log records statements, which InnoDB refuses for READ COMMITTED; set "
    "binlog_format to ROW or MIXED",
    1286: "it has no InnoDB",
    3159: "it accepts only connections with TLS; write ssl_mode=verify_identity",
    1038: "its sort_buffer_size is too small; 256 KiB is enough",
    1792: "its transactions are read-only, as tx_read_only (transaction_read_only) is on; turn it "
    "off where it was set",
    1104: "max_join_size is too small, and a proxy prevents holdfast from lifting it",
    1461: "making the tables needs a prepared statement, for which it has no room; raise "
    "max_prepared_stmt_count",
    1419: "making procedures needs another right; make the tables as an administrator: "
    "holdfast schema",
}
_INNODB_READ_ONLY = (
    "its tables can only be read; start it without innodb_read_only and innodb_force_recovery"
)
#: Errors whose number alone isn't enough: number, a part of the message -> the cause.
_WRONG_BY_WORDS = {
    (1290, "NO_ENGINE_SUBSTITUTION"): "enforce_storage_engine prevents tables of "
    "InnoDB; remove that setting",
    (1005, "errno: 165"): _INNODB_READ_ONLY,
    (1036, ""): _INNODB_READ_ONLY,
    (1193, "'innodb_"): "it has no InnoDB; start it without skip-innodb",
    (1184, "init_connect"): "its init_connect fails, which it runs for each new connection; "
    "correct it",
}


def complaint(error: ServerSaid, label: str) -> HoldfastError:
    """Return the exception for an error of the server ``label``, with its meaning and a remedy."""
    for (code, part), words in _WRONG_BY_WORDS.items():
        if error.code == code and part in error.text:
            return ConfigError(f"{label} refuses: {words} ({error})")
    if told := _UNAVAILABLE.get(error.code):
        return StoreUnavailable(f"{label} can't do that now: {told} ({error})")
    if error.code == _TOO_LONG:
        return TooLarge(
            f"{label} refuses: the request is longer than max_allowed_packet; raise that, or send "
            f"less ({error})"
        )
    if error.code in OVER:
        return StoreUnavailable(f"{label} ended the connection ({error})")
    if told := _WRONG.get(error.code):
        return ConfigError(f"{label} refuses: {told} ({error})")
    if error.code in MISSING:
        return ConfigError(
            f"{label} lacks a table or a procedure of holdfast: make them with "
            f"`holdfast schema` ({error})"
        )
    return HoldfastError(f"{label} answered with an error that holdfast doesn't expect: {error}")


def no_entry(wrong: Exception, settings: Settings) -> HoldfastError:
    """Return the error for a connection that could not be made."""
    said = heard(wrong)
    if said is not None:
        return complaint(said, settings.label)
    label = settings.label
    seen = f"{wrong} {tls.failure(wrong) or ''}"
    # asyncmy begins TLS even if the server has none. Then OpenSSL reports a wrong version number.
    if wrong.args[:1] == (_NO_TLS,) or "WRONG_VERSION_NUMBER" in seen:
        return ConfigError(f"{label} doesn't use TLS, and ssl_mode={settings.tls} requires it")
    if "CERTIFICATE_VERIFY_FAILED" in seen:
        return ConfigError(
            f"the certificate of {label} is not trusted, or is for another host: name the "
            f"authority that signed it (ssl_ca=), and use the host name of the certificate: {wrong}"
        )
    return StoreUnavailable(f"{label} took no connection: {wrong}")


def not_made(label: str, wrong: Exception) -> StoreUnavailable:
    """Return the error for an engine that made no connection, but raised an unknown exception."""
    return StoreUnavailable(
        f"{label} took no connection: its engine ended with {type(wrong).__name__}: {wrong}"
    )


def garbled(wrong: Exception, label: str) -> StoreUnavailable:
    """Return the error for a reply that the driver can't read. The connection is then of no use."""
    return StoreUnavailable(
        f"{label} sent a reply that can't be read: {type(wrong).__name__}: {wrong}"
    )


def heard(wrong: Exception) -> ServerSaid | None:
    """Return the error of the server in a driver's exception; None: the connection broke."""
    code = wrong.args[0] if wrong.args else None
    if not isinstance(code, int) or code < 1000 or code in DRIVER:
        return None
    return ServerSaid(code, str(wrong.args[1]) if len(wrong.args) > 1 else "")
