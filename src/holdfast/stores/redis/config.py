"""Connection settings from a URL, or from a client of redis-py. No driver is imported.

Accepts every URL that redis-py, Celery or kombu accepts, so that a program can pass the string that
it has. The options for redis-py's own pool, retries and decoding have no effect. Neither do
`timeout` and `socket_timeout`, because holdfast sets the time limit of each request itself.
`socket_connect_timeout` limits the time for connecting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...core.url_options import NO_PLACE, any_text, is_port, number, seconds, word
from ...errors import ConfigError
from ...runtime import tls
from ...url import StoreURL, plain
from .complaints import LOGIN

PORT = 6379
DEFAULT_PREFIX = "holdfast"
#: Maximum length of a prefix. Every key contains the prefix, so a longer prefix costs memory.
PREFIX_MAX = 64
_PREFIX = re.compile(rf"[A-Za-z0-9_.:-]{{1,{PREFIX_MAX}}}")
_NO = ("0", "f", "false", "n", "no", "")
#: Arguments of a given client that aren't copied: holdfast's connections set their own values, or
#: no values.
_OURS = (
    "cache",
    "cache_config",
    "connection_pool",
    "decode_responses",
    "encoding",
    "encoding_errors",
    "event_dispatcher",
    "health_check_interval",
    "himport_registry",
    "legacy_responses",
    "maint_notifications_config",
    "maint_notifications_pool_handler",
    "max_connections",
    "parser_class",
    "protocol",
    "retry",
    "retry_on_error",
    "retry_on_timeout",
    "socket_connect_timeout",
    "socket_read_size",
    "socket_timeout",
    "timeout",
)


class Settings(NamedTuple):
    """Settings of the connections to a server.

    ``kind`` is ``tcp``, ``tls`` or ``unix``; ``arguments`` are for redis-py's class of this kind.
    """

    kind: str
    arguments: Mapping[str, Any]
    label: str
    prefix: str = DEFAULT_PREFIX
    protocol: int = 3
    #: Maximum seconds for connecting; less if the request has less time left.
    connect_s: float = 5.0
    #: The mode of recovery from a server that has lost data: reclaim, strict or off.
    recovery: str = "reclaim"
    #: The grace period in seconds, in which nothing is granted; 0: the default of the mode.
    grace: float = 0.0
    #: Number of replicas that must confirm the writes of a grant.
    replicas: int = 0
    #: The class of the connections of a given client; None: the class of redis-py for the kind.
    connection_class: Any = None
    #: A remedy, for the error about a missing login.
    login: str = LOGIN

    def __repr__(self) -> str:
        return f"Settings({self.label!r})"


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError(f"letters, digits and any of _ . : -, at most {PREFIX_MAX}")
    return text


def _yes(text: str) -> bool:
    return text.lower() not in _NO


def _requirement(text: str) -> str:
    plain = text.lower().removeprefix("cert_")
    return word("none", "optional", "required")(plain)


def _flags(text: str) -> list[Any]:
    import ssl  # here, because few clients need it, and it is slow to import

    names = [name.strip() for name in text.strip("[]").split(",")]
    flags = [getattr(ssl.VerifyFlags, name, None) for name in names]
    if None in flags:
        raise ValueError("names of ssl.VerifyFlags, with commas between them")
    return flags


def _version(text: str) -> int:
    if text not in ("769", "770", "771", "772"):
        raise ValueError("must be 769 (TLS 1.0), 770, 771 (TLS 1.2) or 772 (TLS 1.3)")
    return int(text)


_any_time = seconds(0.0, 86_400.0)
_any_number = number(0, 1 << 31)
#: Minimum and maximum grace period in seconds.
GRACE_S_MIN, GRACE_S_MAX = 0.5, 86_400.0
REPLICAS_MAX = 100

#: Options that become arguments of redis-py's connections.
_ARGUMENTS: dict[str, Callable[[str], Any]] = {
    "username": any_text,
    "password": any_text,
    "client_name": any_text,
    "socket_keepalive": _yes,
    "ssl_keyfile": any_text,
    "ssl_certfile": any_text,
    "ssl_password": any_text,
    "ssl_cert_reqs": _requirement,
    "ssl_ca_certs": any_text,
    "ssl_ca_path": any_text,
    "ssl_ca_data": any_text,
    "ssl_check_hostname": _yes,
    "ssl_ciphers": any_text,
    "ssl_min_version": _version,
    "ssl_include_verify_flags": _flags,
    "ssl_exclude_verify_flags": _flags,
    "ssl_validate_ocsp": _yes,
    "ssl_validate_ocsp_stapled": _yes,
}
#: The TLS options that are checked when the URL is read, by their names in `runtime.tls`.
_TLS = {
    "ca": "ssl_ca_certs",
    "ca_path": "ssl_ca_path",
    "ca_data": "ssl_ca_data",
    "cert": "ssl_certfile",
    "key": "ssl_keyfile",
    "password": "ssl_password",
    "ciphers": "ssl_ciphers",
}
#: Options that redis-py, Celery or kombu understand, and that have no effect here.
_ACCEPTED: dict[str, Callable[[str], Any]] = {
    "decode_responses": _yes,
    "encoding": any_text,
    "encoding_errors": any_text,
    "health_check_interval": _any_number,
    "legacy_responses": _yes,
    "max_connections": _any_number,
    "retry_on_error": any_text,
    "retry_on_timeout": _yes,
    "socket_read_size": _any_number,
    "socket_timeout": _any_time,
    "timeout": _any_time,
}
#: All options that a URL may have after its question mark.
OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "prefix": _prefix,
    "db": _any_number,
    "virtual_host": _any_number,
    "protocol": number(2, 3),
    "socket_connect_timeout": _any_time,
    "recovery": word("reclaim", "strict", "off"),
    "grace": seconds(GRACE_S_MIN, GRACE_S_MAX),
    "replicas": number(0, REPLICAS_MAX),
    **_ARGUMENTS,
    **_ACCEPTED,
}


def settings(url: StoreURL) -> Settings:
    """The settings of the server that a URL or a given client names."""
    return _of_client(url.native) if url.native is not None else _of_url(url)


def _of_url(url: StoreURL) -> Settings:
    options = url.options
    arguments: dict[str, Any] = {
        key: value for key, value in options.items() if key in _ARGUMENTS and value != ""
    }
    user, password = url.login
    arguments |= {"username": user} if user else {}
    arguments |= {"password": password} if password else {}
    db = options.get("db", options.get("virtual_host"))
    if _is_socket(url.scheme):
        if url.host or len(url.path) < 2:
            raise ConfigError(f"{url.scheme}:// names a socket: {url.scheme}:///path/to/redis.sock")
        kind, arguments["path"] = "unix", url.path
        place = url.path
    else:
        kind = "tls" if url.scheme in ("rediss", "valkeys") else "tcp"
        host, port = _place(url)
        arguments["host"], arguments["port"] = host, port
        if db is None:
            db = _database(url)
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    _check_tls(url.scheme, kind, arguments)
    if kind == "tls":  # set here, because the default differs between versions of redis-py
        arguments.setdefault("ssl_check_hostname", arguments.get("ssl_cert_reqs") != "none")
    arguments["db"] = db or 0
    prefix = options.get("prefix", DEFAULT_PREFIX)
    return Settings(
        kind,
        arguments,
        _label(url.scheme, place, arguments["db"], prefix),
        prefix,
        options.get("protocol", 3),
        options.get("socket_connect_timeout") or 5.0,
        options.get("recovery", "reclaim"),
        options.get("grace", 0.0),
        options.get("replicas", 0),
    )


def _check_tls(scheme: str, kind: str, arguments: Mapping[str, Any]) -> None:
    said = [key for key in arguments if key.startswith("ssl_")]
    if kind == "tls":
        if said:
            tls.context(scheme, _TLS, arguments)
    elif said:
        remedy = "leave it out"
        if kind == "tcp":
            remedy += f", or write {scheme.replace('valkey', 'valkeys').replace('redis', 'rediss')}"
        raise ConfigError(
            f"{scheme}:// option {said[0]}: this connection doesn't use TLS; {remedy}"
        )


def _is_socket(scheme: str) -> bool:
    return scheme.endswith(("unix", "+socket"))


def _place(url: StoreURL) -> tuple[str, int]:
    """Host and port of a text such as ``localhost:6380`` or ``[::1]``."""
    text = url.host
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        port, good = rest.removeprefix(":"), bool(closed) and (not rest or rest[0] == ":")
    else:
        host, _, port = text.partition(":")
        good = True
    if not good or (port and not is_port(port)):
        raise ConfigError(f"{url}: {NO_PLACE}")
    return plain(host) or "localhost", int(port or PORT)


def _database(url: StoreURL) -> int:
    text = url.path.replace("/", "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ConfigError(
            f"{url._replace(path='')}: the path isn't a database; a {url.scheme}:// URL "
            f"has its number there, as in {url.scheme}://localhost:6379/0"
        )
    return int(text or 0)


def _label(scheme: str, place: str, db: int, prefix: str) -> str:
    text = str(StoreURL(scheme, path=place)) if _is_socket(scheme) else f"{scheme}://{place}"
    if _is_socket(scheme):
        text += f"?db={db}" if db else ""
    else:
        text += f"/{db}"
    if prefix != DEFAULT_PREFIX:
        told = prefix if "@" not in prefix else "..."  # text with @ can be the end of a password
        text += f"{'&' if '?' in text else '?'}prefix={told}"
    return text


# -- given clients ------------------------------------------------------------------------------


def _of_client(client: Any) -> Settings:
    """Settings for connections that are made like those of a given client of redis-py.

    Holdfast doesn't use the client's own connections. The client's pool can be small, and its
    connections can decode replies, wait for 5 s and retry ten times.
    """
    pool = getattr(client, "connection_pool", None)
    given = getattr(pool, "connection_kwargs", None)
    made_of = getattr(pool, "connection_class", None)
    if not isinstance(given, Mapping) or not isinstance(made_of, type):
        raise ConfigError(
            f"a {type(client).__name__} can't be used as a store; give a redis.Redis or "
            "redis.asyncio.Redis, or a URL"
        )
    arguments = {key: value for key, value in given.items() if key not in _OURS}
    kind = _kind(made_of)
    arguments["db"] = db = int(arguments.get("db") or 0)
    if kind == "unix":
        label = _label("redis+unix", str(arguments.get("path")), db, DEFAULT_PREFIX)
    else:
        host, port = str(arguments.get("host", "localhost")), arguments.get("port", PORT)
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        label = _label("rediss" if kind == "tls" else "redis", place, db, DEFAULT_PREFIX)
    return Settings(
        kind,
        arguments,
        label,
        protocol=int(given.get("protocol") or 3),
        connect_s=given.get("socket_connect_timeout") or 5.0,
        connection_class=made_of,
    )


def _kind(made_of: type) -> str:
    """The kind of a connection class: unix, tls or tcp, in both faces of redis-py."""
    names = {one.__name__ for one in made_of.__mro__}
    if "UnixDomainSocketConnection" in names:
        return "unix"
    if "SSLConnection" in names:
        return "tls"
    if "Connection" in names:
        return "tcp"
    raise ConfigError(
        f"a client whose connections are of the class {made_of.__name__} can't be used as a store; "
        "give a URL"
    )
