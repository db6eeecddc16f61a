"""Errors of the server, and the exception that each becomes for the caller."""

from __future__ import annotations

import re

from ...core.layout import newer
from ...errors import ConfigError, HoldfastError, StoreUnavailable
from .config import Settings
from .ddl import LAYOUT

#: The SQLSTATEs that mean: the schema is missing, or is of another version.
NO_SCHEMA = frozenset({"3F000", "42883", "42P01", "42703"})
#: The SQLSTATEs that mean: the server has forgotten a prepared statement (DISCARD), or has planned
#: the statement for another schema.
FORGOTTEN = frozenset({"26000", "0A000"})
#: The SQLSTATE that means: the tables have a later layout.
NEWER = "HF003"
#: The SQLSTATE that means: the server takes no writes, because it is a standby.
READ_ONLY = "25006"


class ServerSaid(Exception):
    """An error of the server: its SQLSTATE and its message."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.text.strip()} ({self.code})"


#: Causes of temporary errors, by SQLSTATE or its class. These errors end by themselves, or when an
#: administrator acts.
_UNAVAILABLE = {
    "08": "the connection broke",
    "40": "the request conflicted with another one, and was rolled back",
    "53": "it lacks memory, disk or another resource",
    "54000": "its queue of NOTIFY is full: a session that listens has had a transaction open for a "
    "long time. Find it in pg_stat_activity, and end it",
    "22003": "a row of its tables contains an impossible number: another program has changed it",
    "55": "another session keeps a row or a table locked for too long",
    "57": "it is stopping or starting, or an administrator ended the request",
    "57014": "the request was ended, by a short statement_timeout or by an administrator",
    "58": "its system reported an error",
    "XX": "it reported an internal error",
    READ_ONLY: "it takes no writes: it has become a standby, or default_transaction_read_only was "
    "turned on",
    "53300": "all connections that it allows are in use (max_connections)",
}
#: Causes of lasting errors, by SQLSTATE or its class. These errors stay until a user or an
#: administrator changes something.
_WRONG = {
    "28": "the user or the password is wrong, or pg_hba.conf refuses this user from here",
    "3D": "there is no such database",
    "3F": "the schema is missing. Make it with `holdfast schema`, or leave out create_schema=off",
    "42501": "the user lacks a right. The owner of the schema {schema} grants it: GRANT USAGE ON "
    "SCHEMA {schema} TO {user}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {user}; and "
    "for refresh guards GRANT SELECT ON {schema}.refresh_values TO {user}",
    "42883": "a function of the schema is missing: it is of another version. Make it again with "
    "`holdfast schema`",
    "42P01": "a table of the schema is missing. Make it again with `holdfast schema`",
    "42703": "a column of the schema is missing: it is of another version. Make it again with "
    "`holdfast schema`",
    "42P05": "prepared statements of several clients conflict: a pooler is in between and hides it",
    "HF002": "an object there belongs to a role that could use the rights of the role that makes "
    "the schema. If that is intended, make the schema as the role that owns the object, or trust "
    "it: trust=ROLE in the URL. If not, inspect the object before you drop it",
    "HF001": "transactions there aren't READ COMMITTED by default, and behind a pooler holdfast "
    "can't change that: ALTER ROLE {user} SET default_transaction_isolation = 'read committed'",
}
#: Texts that replace those of `_WRONG` if the URL names no user. libpq then finds the user, so a
#: remedy can't contain the name.
_NAMELESS = {
    "42501": "the user lacks a right. The owner of the schema {schema} grants it: USAGE of the "
    "schema, EXECUTE of all functions in it, and for refresh guards SELECT of its refresh_values",
    "HF001": "transactions there aren't READ COMMITTED by default, and behind a pooler holdfast "
    "can't change that: give the user a default_transaction_isolation of 'read committed'",
}


def complaint(error: ServerSaid, settings: Settings) -> HoldfastError:
    """Return the exception for an error of this server, with its meaning and a remedy."""
    label = settings.label
    if error.code == NEWER:
        return newer(f"the schema {settings.schema} at {label}", error.text.split()[-1], LAYOUT)
    for key in (error.code, error.code[:2]):
        if key in _WRONG:
            text = _WRONG[key] if settings.user else _NAMELESS.get(key, _WRONG[key])
            text = text.replace("{schema}", identifier(settings.schema))
            text = text.replace("{user}", identifier(settings.user))
            return ConfigError(f"{label} refuses: {text} ({error})")
        if key in _UNAVAILABLE:
            return StoreUnavailable(f"{label} can't do that now: {_UNAVAILABLE[key]} ({error})")
    return HoldfastError(f"{label} answered with an error that holdfast doesn't expect: {error}")


#: A failed attempt to connect has no SQLSTATE, only a message. If the message contains one of these
#: texts, further attempts fail, too.
_NO_ENTRY = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|does not exist"
    r"|invalid (?:connection option|port|integer|\S+ (?:value|range))"
    r"|could not parse network address|weak sslmode|requirepeer specifies"
    r"|channel binding (?:required|is required)|authentication method requirement"
    r"|permission denied for database|not currently accepting connections"
    r"|(?:definition of service|service file) \S+ not found"
    # Errors of the server about options= and client_encoding=
    r"|unrecognized configuration parameter|invalid value for parameter"
    r"|permission denied to set parameter|cannot set parameter|invalid command-line argument"
    r"|certificate verify failed|does not match host name|requires a valid client certificate"
    r"|does not support SSL|unsupported protocol|no protocols available|tlsv1\S* alert"
    r"|role \S+ is not permitted",
    re.IGNORECASE,
)
#: More texts after which further attempts fail, about a file that the URL names. Unlike the texts
#: of `_NO_ENTRY`, these count even if the message contains "No such file" (the file is missing).
_FILE = re.compile(r"(?:certificate|private key|root certificate|CRL)\b.* file|certificate present")


#: Texts in messages of a server whose connections are all in use by other clients.
_FULL = re.compile(r"connection slots are reserved|too many (?:clients|connections)", re.IGNORECASE)


def identifier(name: str) -> str:
    """Return a name as an identifier of SQL; it may contain any characters.

    >>> identifier('a "b" c')
    '"a ""b"" c"'
    """
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def no_entry(said: str, label: str) -> HoldfastError:
    """Return the exception for an attempt to connect that failed with this message."""
    text = " ".join(said.split()) or "no reason was given"
    if _FILE.search(text) or (_NO_ENTRY.search(text) and "No such file" not in text):
        return ConfigError(f"{label} refuses the connection: {text}")
    if _FULL.search(text):
        text += (
            ". All connections that it allows are in use: raise max_connections, put a pooler in "
            "between, or make pool= smaller"
        )
    return StoreUnavailable(f"{label} took no connection: {text}")
