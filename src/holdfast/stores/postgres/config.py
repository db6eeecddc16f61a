"""Connection settings from a URL, or from an existing pool or engine.

A URL has the form and the options of libpq, and the options of holdfast. No driver is imported
here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ...core.policy import PATIENCE_S
from ...core.url_options import NO_PLACE, any_text, number, seconds, word
from ...errors import ConfigError
from ...url import StoreURL, plain

DEFAULT_SCHEMA = "holdfast"
#: Default and upper limit of pool=, the maximum number of connections of a client. One more
#: connection listens.
POOL, POOL_MAX = 10, 1000
#: Default grace period in seconds, by the value of recovery=. After an event that may have lost
#: acknowledged changes, nothing is granted in this time.
WINDOW_S = {"off": 0.0, "reclaim": 4.0, "strict": 30.0}
GRACE_S_MIN, GRACE_S_MAX = 0.5, 86_400.0
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
_PLACE = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(?::([0-9]{1,5}))?")


class Settings(NamedTuple):
    """The address of a server, and the options of the store there.

    ``places``: a connection string of libpq for each host.
    """

    places: tuple[str, ...]
    label: str
    schema: str = DEFAULT_SCHEMA
    #: True if a crash of the server can lose acknowledged changes.
    relaxed: bool = False
    recovery: str = "reclaim"
    grace: float = 0.0
    #: True if a missing schema is made.
    create: bool = True
    pool: int = POOL
    #: True for pooler=session: a pooler in between keeps a session for each of its clients.
    sessions: bool = False
    #: Roles whose objects in the schema are trusted when it is made.
    trust: tuple[str, ...] = ()
    #: The user that connects; empty: libpq finds it.
    user: str = ""

    @property
    def window(self) -> float:
        """The grace period in seconds; 0: there is no recovery.

        Nothing is granted in this time after an event that may have lost data.
        """
        return self.grace or WINDOW_S[self.recovery]

    def __repr__(self) -> str:
        return f"Settings({self.label!r})"


def _schema(text: str) -> str:
    if not _SCHEMA.fullmatch(text) or text.startswith("pg_"):
        raise ValueError(
            "must be at most 63 of a-z, 0-9 and _, and begin neither with a digit nor with pg_"
        )
    return text


def _roles(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    if not all(_ROLE.fullmatch(one) for one in found):
        raise ValueError("must be names of roles with commas between: letters, digits, _ and -")
    return found


def _attributes(text: str) -> str:
    if text in ("standby", "read-only"):
        raise ValueError("holdfast writes, so it needs a server that can be written to")
    return word("any", "read-write", "primary", "prefer-standby")(text)


#: Options that are passed to libpq unchanged.
LIBPQ = (
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "dbname",
    "gssdelegation",
    "gssencmode",
    "gsslib",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "options",
    "passfile",
    "password",
    "port",
    "require_auth",
    "requirepeer",
    "service",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcertmode",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslpassword",
    "sslrootcert",
    "sslsni",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
)
_switch = word("0", "1")
_version = word("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3", "")
_whole = number(0, (1 << 31) - 1)


def _number_text(text: str) -> str:
    _whole(text)
    return text


def _ports(text: str) -> str:
    for one in filter(None, text.split(",")):
        number(0, 65535)(one)
    return text


def _wait(text: str) -> str:
    if text.removeprefix("-").isdigit() and text.isascii():
        return text
    raise ValueError("must be a whole number of seconds; 0: the time limit of holdfast")


#: Checks of the values of libpq's options; an option without a check takes any text.
_TOLD: Mapping[str, Callable[[str], str]] = {
    "channel_binding": word("disable", "prefer", "require"),
    "connect_timeout": _wait,
    "gssdelegation": _switch,
    "gssencmode": word("disable", "prefer", "require"),
    "keepalives": _number_text,
    "keepalives_count": _number_text,
    "keepalives_idle": _number_text,
    "keepalives_interval": _number_text,
    "load_balance_hosts": word("disable", "random"),
    "ssl_max_protocol_version": _version,
    "ssl_min_protocol_version": _version,
    "port": _ports,
    "sslcertmode": word("disable", "allow", "require"),
    "sslcompression": _switch,
    "sslmode": word("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "sslnegotiation": word("postgres", "direct"),
    "sslsni": _switch,
    "target_session_attrs": _attributes,
    "tcp_user_timeout": _number_text,
}
#: All options of a URL, each with the check of its value.
OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "schema": _schema,
    "durable": word("on", "relaxed"),
    "recovery": word("reclaim", "strict", "off"),
    "grace": seconds(GRACE_S_MIN, GRACE_S_MAX),
    "create_schema": word("on", "off"),
    "pool": number(1, POOL_MAX),
    "pooler": word("transaction", "session"),
    "trust": _roles,
    **dict.fromkeys(LIBPQ, any_text),
    **_TOLD,
}


def settings(url: StoreURL) -> Settings:
    """Return the settings for the server that a URL, a pool or an engine names."""
    if url.native is not None:
        return _settings(_of_native(url.native), {})
    words = {key: value for key, value in url.options.items() if key in LIBPQ}
    user, password = url.login
    if user:
        words.setdefault("user", user)
    if password is not None:
        words.setdefault("password", password)
    if url.host:
        hosts, ports = _places(url)
        words.setdefault("host", hosts)
        if ports.strip(","):
            words.setdefault("port", ports)
    if len(url.path) > 1:
        words.setdefault("dbname", url.path[1:])
    return _settings(words, url.options)


def _settings(words: dict[str, str], options: Mapping[str, Any]) -> Settings:
    found = Settings(
        tuple(_conninfos(words)),
        _label(words, options),
        options.get("schema", DEFAULT_SCHEMA),
        options.get("durable", "on") == "relaxed",
        options.get("recovery", "reclaim"),
        options.get("grace", 0.0),
        options.get("create_schema", "on") == "on",
        options.get("pool", POOL),
        options.get("pooler", "transaction") == "session",
        options.get("trust", ()),
        words.get("user", ""),
    )
    if found.recovery == "strict" and found.window < PATIENCE_S:
        raise ConfigError(
            f"{found.label}: grace={found.window:g} is too short for recovery=strict: it must be "
            f"at least {PATIENCE_S:g} seconds, because a waiter relies on a reply for this time"
        )
    return found


def _conninfos(words: dict[str, str]) -> Iterator[str]:
    """Yield one connection string for each host, so that the store can give up a silent host."""
    hosts = {key: words[key].split(",") for key in ("host", "hostaddr", "port") if key in words}
    many = max(len(hosts.get("host", "")), len(hosts.get("hostaddr", "")), 1)
    if any(len(values) not in (1, many) for values in hosts.values()):
        raise ConfigError("a postgresql:// URL names as many hosts as ports, or one port for all")
    default = {
        # A server that disappears is noticed within half a minute.
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
        "fallback_application_name": "holdfast",
    }
    for at in range(many):
        mine = {key: values[at if len(values) > 1 else 0] for key, values in hosts.items()}
        all_words = default | words | mine
        yield " ".join(f"{key}={_quoted(value)}" for key, value in all_words.items())


def _places(url: StoreURL) -> tuple[str, str]:
    """Return all hosts and all ports of a text such as ``db1:5433,[::1]``, joined by commas."""
    hosts, ports = [], []
    for text in url.host.split(","):
        found = _PLACE.fullmatch(text)
        if not found or not 0 <= int(found[2] or 0) < 65536:
            raise ConfigError(f"{url}: {NO_PLACE}, with a comma between several")
        hosts.append(plain(found[1].strip("[]")))
        ports.append(found[2] or "")
    return ",".join(hosts), ",".join(ports)


def _label(words: Mapping[str, str], options: Mapping[str, Any]) -> str:
    """Return the name of the store for messages and logs, without a password."""
    hosts = (words.get("host") or words.get("hostaddr") or "").split(",")
    ports = (words.get("port") or "").split(",")
    shown = []
    for at, host in enumerate(hosts):
        port = ports[at] if at < len(ports) else ports[0] if len(ports) == 1 else ""
        name = f"[{host}]" if ":" in host else host
        shown.append(f"{name}:{port}" if port else name)
    place, path = ",".join(shown), "/" + words.get("dbname", "")
    if place.startswith("/") and "@" not in place:  # the folder of a socket
        text = str(StoreURL("postgresql", "", path)).replace("://", f"://{place}", 1)
    else:
        text = str(StoreURL("postgresql", place, path))
    schema = options.get("schema", DEFAULT_SCHEMA)
    return text + (f"?schema={schema}" if schema != DEFAULT_SCHEMA else "")


def _quoted(value: str) -> str:
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


# -- an existing pool or engine -----------------------------------------------------------------


#: TLS arguments of drivers other than psycopg.
_OF_OTHER_DRIVERS = {"ssl", "ssl_context"}


def _of_native(given: Any) -> dict[str, str]:
    """Return the libpq options of a pool of psycopg or of an engine of SQLAlchemy.

    The pool or engine is used for nothing else: the store makes separate connections with these
    options.
    """
    if getattr(getattr(given, "dialect", None), "name", "") == "postgresql":
        return _of_engine(given)
    conninfo, more = getattr(given, "conninfo", None), getattr(given, "kwargs", None)
    if not isinstance(conninfo, str):
        raise ConfigError(
            f"a {type(given).__name__} can't be used as a store; give a pool of psycopg_pool, an "
            "engine of SQLAlchemy for PostgreSQL, or a URL"
        )
    from psycopg.conninfo import conninfo_to_dict

    extra: dict[str, Any] = {} if not isinstance(more, Mapping) else dict(more)
    words = conninfo_to_dict(conninfo, **{k: v for k, v in extra.items() if k in LIBPQ})
    return {key: str(value) for key, value in words.items() if key in LIBPQ and value is not None}


def _of_engine(engine: Any) -> dict[str, str]:
    """Return the arguments that an engine passes to its driver: its URL and ``connect_args``.

    The arguments exist only in the closure of the function by which the engine connects. The
    closure is read, and not changed.
    """
    sync = getattr(engine, "sync_engine", engine)
    handed = inspect.getclosurevars(sync.pool._creator).nonlocals.get("cparams")
    if not isinstance(handed, Mapping) or len(sync.dialect.dispatch.do_connect):
        raise ConfigError(
            "an engine that connects by your own function (creator=, async_creator=, do_connect) "
            "can't be used as a store: its connection options are unknown. Give a URL, or a pool "
            "of psycopg_pool"
        )
    if tls := sorted(_OF_OTHER_DRIVERS & handed.keys()):
        raise ConfigError(
            f"an engine with {tls[0]}= can't be used as a store: psycopg has no such argument, so "
            "its connections would have no TLS. Give a URL with sslmode= and related options"
        )
    found = {"dbname" if key == "database" else key: value for key, value in handed.items()}
    return {
        key: ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
        for key, value in found.items()
        if key in LIBPQ and value is not None
    }
