"""Errors of the server, and the exception that the caller gets for each.

A port never raises an error reply. It returns the reply as a value, `ServerSaid`, because one reply
of a pipeline can be an error while the others are not. A port itself handles `NOSCRIPT`, `MOVED`
and `DEMOTED`; `complaint` turns every other error into the right exception.
"""

from __future__ import annotations

import re

from ...core.layout import newer
from ...errors import ConfigError, HoldfastError, StoreUnavailable

#: The script isn't loaded: load all scripts and send the call again, on the same connection.
NOSCRIPT = "NOSCRIPT"
#: Another node of the cluster has the slot.
MOVED = "MOVED"
#: This server is a replica: connect again, to the server that is the primary now.
DEMOTED = frozenset({"READONLY", "MASTERDOWN"})


class ServerSaid(Exception):
    """An error reply, as a value: ``code`` is its first word, ``text`` the rest."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.code} {self.text}".rstrip()


#: Before Redis 7.0, the error of a command in a script follows a sentence about the script.
_IN_SCRIPT = re.compile(r".*@user_script: ?\d+: -([A-Z]+ .*)", re.DOTALL)


def said(line: str) -> ServerSaid:
    """Read an error reply, which is a line here without its ``-``.

    A server repeats the arguments of an unknown command, even a password. They are removed.

    >>> said("MOVED 3999 127.0.0.1:6381").code
    'MOVED'
    >>> said("ERR unknown command 'AUTH', with args beginning with: 'sesame' ").text
    "unknown command 'AUTH'"
    """
    line = without_arguments(line)
    if found := _IN_SCRIPT.match(line):
        line = found[1]
    code, _, text = line.partition(" ")
    return ServerSaid(code, text)


def without_arguments(text: str) -> str:
    """The text of an error without the arguments that the server repeats from the request."""
    return text.partition(", with args beginning with")[0]


#: Errors that end by themselves or after a repair of the server: their codes and our texts.
_UNAVAILABLE = {
    "READONLY": "it is a replica now",
    "MASTERDOWN": "it is a replica and has lost its primary",
    "LOADING": "it is still reading its data from the disk",
    "TRYAGAIN": "the keys are being moved to another node",
    MOVED: "another node of the cluster has these keys",
    "ASK": "another node of the cluster is taking over these keys",
    "CLUSTERDOWN": "the cluster lacks a node that has these keys",
    "BUSY": "a script that isn't holdfast's runs there for too long; end it with SCRIPT KILL",
    "NOREPLICAS": "it has fewer replicas than min-replicas-to-write requires: it accepts no writes",
    "MISCONF": "it can't write its data to the disk, so it accepts no writes; see its log",
    "OOM": "it has no memory left (maxmemory): new claims are refused, holds are still renewed and "
    "released; give it more memory",
    "INPROG": "it is handing over to another server",
}
NO_PASSWORD = "it requires a password"  # noqa: S105 - a message
#: The remedy for a missing login.
LOGIN = (
    "put it into the URL, as in redis://:password@host/0, or redis://user:password@host/0 for a "
    "user of an ACL"
)
WRONG_PASSWORD = "the user or the password is wrong, or the user is disabled"  # noqa: S105
#: Errors that last until a setting or a login is changed.
_WRONG = {
    "NOAUTH": f"{NO_PASSWORD}: {LOGIN}",
    "WRONGPASS": WRONG_PASSWORD,
    "WRONGTYPE": "another program uses a key that holdfast needs. Give holdfast a "
    "separate prefix in the URL (?prefix=...), or a separate database",
    "NOSCRIPT": "it forgets scripts right after they are loaded; is a proxy in between?",
    "NOPERM": "the user lacks a right",
    "NOPROTO": "it doesn't support the requested protocol; write ?protocol=2",
    "CROSSSLOT": "it is a node of a cluster; write redis+cluster://",
}
_NO_COMMAND = re.compile(r"unknown (?:sub)?command [`']?(\w+)", re.IGNORECASE)
_NOT_FOR_SCRIPTS = re.compile(r"unknown redis command called from script", re.IGNORECASE)
_NO_RIGHT = re.compile(r"(?:run|execute) the '([\w|]+)' command", re.IGNORECASE)
#: Finds the name of the user. A server before 7.0 sends "this user" instead of the name.
_WHO = re.compile(r"\bUser (\S+) has no permissions")
_PLAIN_USER = re.compile(r"[A-Za-z0-9_@.][A-Za-z0-9_@.:-]*")
#: Errors of our scripts on a key whose content another program wrote.
_DAMAGED = re.compile(r"user_script.*(?:attempt to|bad argument|too short|is damaged|malformed)")
#: The error of our scripts on a state of a later layout; see ``lua/layout.lua``.
_NEWER = re.compile(r"user_script.*it has layout (\d+)")
#: The layout of states and values. A release with another one reads this one, too, and writes
#: states that begin as described in ``lua/layout.lua``.
LAYOUT = 1
_OLDEST = "6.2"


def complaint(error: ServerSaid, label: str) -> HoldfastError:
    """The exception for an error reply of the server ``label``: its meaning and its remedy."""
    if found := _NEWER.search(str(error)):
        return newer(label, found[1], LAYOUT)
    words = _UNAVAILABLE.get(error.code)
    if error.code in (MOVED, "ASK") and "+cluster" not in label.partition("://")[0]:
        return ConfigError(f"{label} refuses: {_WRONG['CROSSSLOT']} ({error})")
    if "max number of clients" in error.text:
        words = "its maximum number of connections is reached (maxclients)"
    if words is not None:
        return StoreUnavailable(f"{label} can't do that now: {words} ({error})")
    words = _WRONG.get(error.code) or _other(error)
    if error.code == "NOPERM":
        words += _right(error.text)
    if words:
        return ConfigError(f"{label} refuses: {words} ({error})")
    return HoldfastError(f"{label} answered with an error that holdfast doesn't expect: {error}")


def no_redis(label: str, why: str) -> str:
    """The message for a peer that answers as no Redis does."""
    return f"the peer at {label} isn't a Redis, or a proxy changes the messages: {why:.200}"


def _right(text: str) -> str:
    """The missing right, and the command that gives it."""
    named = _WHO.search(text)
    user = named[1] if named else ""
    if found := _NO_RIGHT.search(text):
        return f": {rules(user, f'+{found[1].lower()}')}"
    kind = "&" if "channel" in text else "~"
    cluster = " (in a cluster &{*}holdfast:*)" if kind == "&" else ""
    return (
        f": it needs the rule {kind}holdfast:*{cluster}, or of the prefix that the URL names, by "
        "ACL SETUSER"
    )


def rules(user: str, *wanted: str) -> str:
    """The command that gives a user these rules; a sentence if the name of the user isn't plain.

    ``ACL SETUSER`` with a wrong name creates a new user, so the command never changes the name.
    """
    every = " ".join(wanted)
    if _PLAIN_USER.fullmatch(user):
        return f"ACL SETUSER {user} {every}"
    who = f"the user {user!r}" if user else "the user"
    return f"by ACL SETUSER, give {who} {every}"


def _other(error: ServerSaid) -> str:
    """The meaning of any other error, by its text; empty if it is unknown."""
    if found := _NO_COMMAND.search(error.text):
        return (
            f"it has no command {found[1].upper()}: it is older than Redis {_OLDEST}, or another "
            "program, or the command was removed (rename-command)"
        )
    if _NOT_FOR_SCRIPTS.search(error.text):
        return (
            "it lacks a command that the scripts call: it is older than Redis "
            f"{_OLDEST}, or the command was removed (rename-command); `holdfast doctor` names it"
        )
    # Before Redis 7.2 the error doesn't name the forbidden command.
    if "user executing the script" in error.text or "ACL failure" in error.text:
        return (
            "the user lacks a right to a command that the scripts call; `holdfast doctor` names "
            "each that is missing"
        )
    if _DAMAGED.search(str(error)):
        return (
            "the content of a key of holdfast was damaged from outside. `holdfast doctor` checks "
            "the types of the keys; delete this one (DEL) when no client holds the name"
        )
    if "unauthenticated" in error.text:
        return _WRONG["NOAUTH"]
    if "DB index" in error.text:
        return "it has no database with that number"
    if "SELECT is not allowed in cluster" in error.text:
        return "it is a node of a cluster, which has only database 0"
    if "Error compiling script" in error.text or "without a shebang" in error.text:
        return f"it can't read the scripts: it is older than Redis {_OLDEST}, or another program"
    return ""
