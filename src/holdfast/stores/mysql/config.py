"""Connection settings from a URL. No driver is imported.

The options ``charset``, ``read_timeout`` and ``write_timeout``, which URLs of SQLAlchemy can have,
are accepted and have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.url_options import NO_PLACE, any_text, is_port, number, seconds, word
from ...errors import ConfigError
from ...runtime import tls

if TYPE_CHECKING:
    import ssl

    from ...url import StoreURL

PORT = 3306
DEFAULT_PREFIX = "holdfast"
#: Maximum number of connections of a client: the default of the option pool=, and its maximum. One
#: more connection is reserved for renewals and releases. A server allows 151 connections in all by
#: default.
POOL, POOL_MAX = 16, 1000
PREFIX_MAX = 30
_PREFIX = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{PREFIX_MAX - 1}}}")
#: Values of ssl_mode=: from no TLS to a certificate that must be trusted and name the host.
TLS = ("disabled", "required", "verify_ca", "verify_identity")
#: Options that name files for TLS.
_TLS_OPTIONS = {"ca": "ssl_ca", "cert": "ssl_cert", "key": "ssl_key"}


class Settings(NamedTuple):
    """The address of a server, and the database there."""

    host: str
    port: int
    socket: str
    user: str
    password: str
    database: str
    label: str
    prefix: str = DEFAULT_PREFIX
    #: Maximum number of seconds for connecting; less if the request has less time.
    connect_s: float = 5.0
    tls: str = TLS[0]
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    #: The engine of SQLAlchemy that makes the connections, if one was given.
    engine: Any = None
    pool: int = POOL

    def __repr__(self) -> str:
        return f"Settings({self.label!r})"

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context for a connection; None without TLS."""
        if self.tls == "disabled":
            return None
        import ssl  # here, because few clients need it, and it is slow to import

        given = {"ssl_ca": self.ca, "ssl_cert": self.cert, "ssl_key": self.key}
        made = tls.context("mysql", _TLS_OPTIONS, given)
        made.check_hostname = self.tls == "verify_identity"
        if self.tls == "required":
            made.verify_mode = ssl.CERT_NONE
        return made


def _prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError(f"a letter, then letters, digits and _, at most {PREFIX_MAX}")
    return text


#: All options of a URL, each with the check of its value.
OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "prefix": _prefix,
    "pool": number(1, POOL_MAX),
    "unix_socket": any_text,
    "connect_timeout": seconds(0.1, 3600.0),
    "ssl_mode": word(*TLS),
    "ssl_ca": any_text,
    "ssl_cert": any_text,
    "ssl_key": any_text,
    "charset": any_text,
    "read_timeout": seconds(0.0, 86_400.0),
    "write_timeout": seconds(0.0, 86_400.0),
}


def settings(url: StoreURL) -> Settings:
    """Return the settings for the server that a URL or an engine of SQLAlchemy names."""
    if url.native is not None:
        return _of_engine(url)
    options = url.options
    host, port = _place(url)
    database = url.path.removeprefix("/")
    if not database or "/" in database:
        raise ConfigError(
            f"{url}: the path of a {url.scheme}:// URL is the database in which holdfast keeps its "
            f"tables, as in {url.scheme}://user:password@localhost:{PORT}/app"
        )
    user, password = url.login
    socket = options.get("unix_socket", "")
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    prefix = options.get("prefix", DEFAULT_PREFIX)
    label = str(url._replace(host="" if socket else place, path="/" + database))
    said = [f"unix_socket={socket}"] if socket else []
    said += [f"prefix={prefix}"] if prefix != DEFAULT_PREFIX else []
    files = [name for name in _TLS_OPTIONS.values() if options.get(name)]
    by_default = TLS[2] if options.get("ssl_ca") else TLS[0]
    if files and options.get("ssl_mode", by_default) == TLS[0]:
        raise ConfigError(
            f"{url.scheme}:// option {files[0]}: this connection doesn't use TLS; leave it out, "
            "or write ssl_mode=verify_identity"
        )
    found = Settings(
        host=host,
        port=port,
        socket=socket,
        user=user,
        password=password or "",
        database=database,
        label=label + ("?" + "&".join(said) if said else ""),
        prefix=prefix,
        connect_s=options.get("connect_timeout", 5.0),
        tls=options.get("ssl_mode", by_default),
        ca=options.get("ssl_ca") or None,
        cert=options.get("ssl_cert") or None,
        key=options.get("ssl_key") or None,
        pool=options.get("pool", POOL),
    )
    found.context()
    return found


def of_driver(found: Settings, driver: str, maker: str) -> Settings:
    """Return the settings; ``ConfigError`` if their engine is for another driver than ours."""
    if found.engine is not None and found.engine.dialect.driver != driver:
        raise ConfigError(
            f"{found.label}: an engine for {found.engine.dialect.driver} was given. Client takes "
            "those for PyMySQL (mysql+pymysql://, create_engine), AsyncClient those for asyncmy "
            f"(mysql+asyncmy://, create_async_engine): this needs {maker}, or a URL"
        )
    return found


def _of_engine(url: StoreURL) -> Settings:
    """Return the settings for an engine of SQLAlchemy, which makes the connections itself."""
    engine = getattr(url.native, "sync_engine", url.native)
    known = engine.url
    host = known.host or ""
    place = f"[{host}]" if ":" in host else host
    port = f":{known.port}" if known.port else ""
    return Settings(
        host=host,
        port=known.port or PORT,
        socket="",
        user=known.username or "",
        password="",
        database=known.database or "",
        label=f"{url.scheme}://{place}{port}/{known.database or ''}",
        engine=engine,
    )


def _place(url: StoreURL) -> tuple[str, int]:
    """Return host and port of a text such as ``localhost:3307`` or ``[::1]``."""
    text = url.host
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        port, good = rest.removeprefix(":"), bool(closed) and (not rest or rest[0] == ":")
    else:
        host, _, port = text.partition(":")
        good = True
    if not good or (port and not is_port(port)):
        raise ConfigError(f"{url}: {NO_PLACE}")
    return host or "localhost", int(port or PORT)
