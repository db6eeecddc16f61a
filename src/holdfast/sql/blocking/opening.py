"""Opens a connection from a URL, for the command ``holdfast purge``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from ...core.drivers import needed
from ...core.misnamed import did_you_mean
from ...core.url_options import word
from ...errors import ConfigError, HoldfastError, StoreUnavailable
from ...url import parse

#: Options of the stores that a URL can contain. They are ignored here.
_OF_POSTGRES = (
    "schema",
    "durable",
    "recovery",
    "grace",
    "create_schema",
    "pool",
    "pooler",
    "trust",
)
_OF_MYSQL = ("prefix", "pool", "read_timeout", "write_timeout")
#: The values of ``ssl_mode``, from no TLS to a certificate that is trusted and names the host.
_TLS = ("disabled", "required", "verify_ca", "verify_identity")


def opened(url: str) -> Any:
    """Open a connection to the database of a URL; the caller closes it."""
    scheme, there, rest = url.partition("://")
    scheme = scheme.partition("+")[0]  # SQLAlchemy's name of a driver
    openers: dict[str, Callable[[str, str], Any]] = {
        "postgresql": _postgres,
        "postgres": _postgres,
        "mysql": _mysql,
        "mariadb": _mysql,
    }
    if not there or scheme not in openers:
        hint = did_you_mean(scheme, openers) if there else "write postgresql://user@host/database"
        raise ConfigError(f"row locks exist only in PostgreSQL, MySQL and MariaDB; {hint}")
    try:
        with needed(f"{scheme}://"):
            return openers[scheme](scheme, rest)
    except HoldfastError:
        raise
    except Exception as wrong:
        raise StoreUnavailable(f"the database can't be reached: {wrong}") from wrong


def _postgres(scheme: str, rest: str) -> Any:
    import psycopg

    theirs = [one.keyword.decode() for one in psycopg.pq.Conninfo.get_defaults()]
    url = parse(scheme, rest, dict.fromkeys([*theirs, *_OF_POSTGRES], str))
    user, _, password = url.secret.partition(":")
    hosts = [_place(one) for one in url.host.split(",")]
    words: dict[str, Any] = {
        "user": unquote(user),
        "password": unquote(password),
        "host": ",".join(host for host, _ in hosts),
        "port": ",".join(port for _, port in hosts) if any(port for _, port in hosts) else "",
        "dbname": url.path[1:],
    }
    words |= {key: value for key, value in url.options.items() if key in theirs}
    return psycopg.connect(**{key: value for key, value in words.items() if value})


def _mysql(scheme: str, rest: str) -> Any:
    import pymysql

    theirs: dict[str, Callable[[str], Any]] = {
        "unix_socket": str, "charset": str, "connect_timeout": float, "ssl_mode": word(*_TLS),
        "ssl_ca": str, "ssl_cert": str, "ssl_key": str,
    }  # fmt: skip
    url = parse(scheme, rest, {**dict.fromkeys(_OF_MYSQL, str), **theirs})
    user, _, password = url.secret.partition(":")
    host, port = _place(url.host)
    words = {key: value for key, value in url.options.items() if key in theirs}
    words |= _tls(words.pop("ssl_mode", ""), words)
    if port:
        words["port"] = int(port)
    words |= {"user": unquote(user), "password": unquote(password), "host": host}
    words["database"] = url.path[1:]
    return pymysql.connect(**{key: value for key, value in words.items() if value != ""})


def _tls(mode: str, words: Mapping[str, Any]) -> dict[str, Any]:
    """Return PyMySQL's options for TLS."""
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode in ("verify_ca", "verify_identity"):
        return {"ssl_verify_cert": True, "ssl_verify_identity": mode == _TLS[3]}
    if mode == "required":
        return {"ssl": {"check_hostname": False, "verify_mode": False}}
    return {}


def _place(text: str) -> tuple[str, str]:
    """Return host and port of ``localhost:5433`` or ``[::1]``."""
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text, ""
    return host.strip("[]"), port
