"""Stores from URLs: the reading of URLs and options, and the table of schemes.

A store is a module with four names: ``CAPABILITIES``; ``OPTIONS`` (option name -> a function that
reads its text, or raises ``ValueError`` with the allowed values); ``open_blocking(url)`` and
``open_aio(url)``, each of which returns a store for one kind of runtime. The module is imported
when its scheme is first used, not before. Other packages add stores through the entry-point group
``holdfast.stores``: scheme = module.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from .core import misnamed
from .core.misnamed import did_you_mean
from .core.model import Capabilities
from .core.ports import Store
from .errors import ConfigError

#: scheme -> module, for the stores that come with holdfast.
BUILTIN: dict[str, str] = {
    "memory": "holdfast.stores.memory",
    "sqlite": "holdfast.stores.sqlite",
    "redis": "holdfast.stores.redis",
    "rediss": "holdfast.stores.redis",
    "redis+unix": "holdfast.stores.redis",
    "redis+socket": "holdfast.stores.redis",
    "unix": "holdfast.stores.redis",
    "valkey": "holdfast.stores.redis",
    "valkeys": "holdfast.stores.redis",
    "valkey+unix": "holdfast.stores.redis",
    "redis+sentinel": "holdfast.stores.redis",
    "rediss+sentinel": "holdfast.stores.redis",
    "valkey+sentinel": "holdfast.stores.redis",
    "valkeys+sentinel": "holdfast.stores.redis",
    "redis+cluster": "holdfast.stores.redis",
    "rediss+cluster": "holdfast.stores.redis",
    "valkey+cluster": "holdfast.stores.redis",
    "valkeys+cluster": "holdfast.stores.redis",
    "redis+plain": "holdfast.dialects.plain",
    "rediss+plain": "holdfast.dialects.plain",
    "redis+timestamp": "holdfast.dialects.timestamp",
    "rediss+timestamp": "holdfast.dialects.timestamp",
    "redis+redisson": "holdfast.dialects.redisson",
    "rediss+redisson": "holdfast.dialects.redisson",
    "valkey+redisson": "holdfast.dialects.redisson",
    "valkeys+redisson": "holdfast.dialects.redisson",
    "postgresql": "holdfast.stores.postgres",
    "postgres": "holdfast.stores.postgres",
    # The notation of SQLAlchemy, for a DATABASE_URL that other programs read, too.
    "postgresql+psycopg": "holdfast.stores.postgres",
    "postgresql+psycopg2": "holdfast.stores.postgres",
    "postgresql+asyncpg": "holdfast.stores.postgres",
    "mysql": "holdfast.stores.mysql",
    "mariadb": "holdfast.stores.mysql",
    "mysql+pymysql": "holdfast.stores.mysql",
    "mysql+asyncmy": "holdfast.stores.mysql",
    "mariadb+pymysql": "holdfast.stores.mysql",
    "mariadb+asyncmy": "holdfast.stores.mysql",
    "zookeeper": "holdfast.stores.zookeeper",
    "zk": "holdfast.stores.zookeeper",
}
#: Package of a driver -> the scheme of the store that accepts clients of that driver.
NATIVE: dict[str, str] = {
    "redis": "redis",
    "kazoo": "zookeeper",
    "psycopg_pool": "postgresql",
    "sqlalchemy": "",  # its dialect is the scheme
}
#: The dialects of SQLAlchemy whose engines are accepted; each is the scheme of a store.
ENGINES = ("postgresql", "mysql", "mariadb")
ENV = "HOLDFAST_URL"
#: If this variable is set, a command that holdfast starts gets even a URL with a password.
PASS = "HOLDFAST_PASS_URL"  # noqa: S105 - the name of a variable
#: holdfast sets this variable for a command that doesn't get the URL.
WITHHELD = "HOLDFAST_URL_WITHHELD"
#: The schemes without a password, whose path can be any text.
FILES = frozenset({"memory", "sqlite"})
#: Messages show only the parts of a URL that match these patterns. A piece of a password that is
#: in the wrong part of the URL doesn't match.
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_HOST = r"(?:[\w.%-]*|\[[0-9A-Fa-f:.%\w]*\])(?::[0-9]{0,5})?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_ODD = re.compile(r"[:@]")
_WORD = re.compile(r"[a-z_]{1,40}")


class NativeCluster(Protocol):
    """A cluster client of a store's driver, such as a ``redis.RedisCluster``."""

    @property
    def nodes_manager(self) -> Any:
        """The client's information about the nodes."""
        ...


class NativeClient(Protocol):
    """A client of a store's driver, such as a ``redis.Redis``; holdfast doesn't close it."""

    @property
    def connection_pool(self) -> Any:
        """The source of the client's connections."""
        ...


class NativeEnsemble(Protocol):
    """A client of an ensemble, such as a ``kazoo.client.KazooClient``; holdfast doesn't close
    it."""

    @property
    def client_id(self) -> Any:
        """The session of the client."""
        ...


class NativePool(Protocol):
    """A pool of connections, such as a ``psycopg_pool.ConnectionPool``; holdfast doesn't close or
    use the pool, but makes separate connections with its parameters."""

    @property
    def conninfo(self) -> Any:
        """The parameters of the pool's connections."""
        ...


class NativeEngine(Protocol):
    """An engine of SQLAlchemy, for threads or asyncio. holdfast makes separate connections with the
    engine's parameters."""

    @property
    def dialect(self) -> Any:
        """The kind of the engine's database."""
        ...


#: The objects of drivers that a client accepts instead of a URL.
Native: TypeAlias = NativeClient | NativeCluster | NativeEnsemble | NativePool | NativeEngine


class StoreURL(NamedTuple):
    """A parsed URL. Its ``str()`` is safe to show: it contains no password.

    ``native``: a client of the store's driver that was given instead of a URL; then only the scheme
    is known here.
    """

    scheme: str
    host: str = ""
    path: str = ""
    options: Mapping[str, Any] = {}
    secret: str = ""
    native: Any = None

    @property
    def login(self) -> tuple[str, str | None]:
        """User and password, decoded. The password is None if the URL has none."""
        user, colon, password = self.secret.partition(":")
        return plain(user), plain(password) if colon else None

    def __repr__(self) -> str:
        return f"StoreURL({str(self)!r})"

    def __str__(self) -> str:
        if self.scheme in FILES:
            return f"{self.scheme}://{self.host}{self.path}"
        if not _HOSTS.fullmatch(self.host) or _ODD.search(self.path):
            return f"{self.scheme}://..."
        return f"{self.scheme}://{self.host}{self.path}"


class StoreModule(Protocol):
    """The names that a module must have to be a store."""

    CAPABILITIES: Capabilities
    OPTIONS: Mapping[str, Callable[[str], Any]]

    def open_blocking(self, url: StoreURL) -> Store:
        """Return a store for threads."""
        ...

    def open_aio(self, url: StoreURL) -> Store:
        """Return a store for one asyncio event loop."""
        ...


def default_url() -> str:
    """Return ``$HOLDFAST_URL``; if it is unset, the URL of the embedded store in the user's private
    folder."""
    # A withheld URL is an error, because the default URL can name another store than the URL that
    # was withheld.
    if ENV not in os.environ and os.environ.get(WITHHELD):
        raise ConfigError(
            f"no store is named, and ${ENV} was withheld from this command because it has a "
            f"password: set {PASS}=1 where the outer `holdfast` is started, or name the store here"
        )
    named = os.environ.get(ENV, "sqlite://")
    if not named.strip():
        raise ConfigError(
            f"${ENV} is set, but empty: name a store in it, such as redis://localhost:6379/0, or "
            "unset it to use this user's local file (sqlite:// names that file)"
        )
    return named


def unnamed(store: object) -> bool:
    """True if no store is named, so that the client uses the default."""
    return store is None and ENV not in os.environ


def source(store: str | os.PathLike[str] | Native | None) -> Any:
    """Return the source of a client's store: a URL, or a client of the store's driver.

    A path becomes the URL of an embedded store; None becomes the default URL.
    """
    if store is None:
        return default_url()
    if isinstance(store, str):
        return store
    if isinstance(store, os.PathLike):
        return _of_path(os.fspath(store))
    if _driver(store):
        return store
    if type(store).__module__.partition(".")[0] == "django":
        raise ConfigError(misnamed.of_django(store, ENGINES))
    raise ConfigError(
        "a store is a URL or a path, or a client of its driver, not a value of type "
        + type(store).__name__
    )


def _of_path(path: str) -> str:
    """The URL of an embedded store at a path."""
    from urllib.parse import quote

    return f"sqlite://{quote(os.path.abspath(path))}"


def _driver(store: object) -> str:
    """Return the package of the driver to which this client belongs, or an empty text."""
    packages = (one.__module__.partition(".")[0] for one in type(store).__mro__)
    return next((one for one in packages if one in NATIVE), "")


def _dialect(engine: Any) -> str:
    """The scheme of the store that accepts this engine of SQLAlchemy."""
    name = getattr(getattr(engine, "dialect", None), "name", None)
    if name is None:
        raise ConfigError(
            f"a {type(engine).__name__} of SQLAlchemy isn't an engine: give the engine that "
            "create_engine() returned, or a URL"
        )
    if name not in ENGINES:
        raise ConfigError(f"no store accepts an engine of SQLAlchemy for {name}; give a URL")
    return str(name)


def portable(found: Any) -> str:
    """Return the source if another process can use the source, too; raise for a driver's client."""
    if isinstance(found, str):
        return found
    raise TypeError(
        f"this client was made from a {type(found).__name__}, which can't be sent to another "
        "process; make it from a URL"
    )


def schemes() -> dict[str, str]:
    """Return each scheme that can be used here, with its module."""
    from importlib import metadata  # here, because its import costs more than all of holdfast

    found = dict(BUILTIN)
    for entry in metadata.entry_points(group="holdfast.stores"):
        found.setdefault(entry.name, entry.value)
    return found


def find(text: Any) -> tuple[StoreModule, StoreURL]:
    """Return the store module and the parsed URL for a source: a text such as
    ``sqlite:///var/lib/x/locks.db``, or a driver's client."""
    if not isinstance(text, str):
        if type(text).__name__ in ("Connection", "AsyncConnection") and hasattr(text, "engine"):
            text = text.engine  # a connection of SQLAlchemy: its engine makes more connections
        scheme = NATIVE[_driver(text)] or _dialect(text)
        module = cast(StoreModule, importlib.import_module(BUILTIN[scheme]))
        return module, StoreURL(scheme, native=text)
    scheme, sep, rest = text.partition("://")
    if not sep:
        raise ConfigError(misnamed.no_url(text, _of_path(text)))
    scheme = scheme.lower()
    path = BUILTIN.get(scheme) or schemes().get(scheme)
    if path is None:
        hint = did_you_mean(scheme, known := schemes(), misnamed.usual(known, BUILTIN))
        shown = f" {scheme!r}" if _SCHEME.fullmatch(scheme) else ""
        raise ConfigError(f"no store for the scheme{shown} of this URL; {hint}")
    module = cast(StoreModule, importlib.import_module(path))
    return module, parse(scheme, rest, module.OPTIONS)


def parse(scheme: str, rest: str, known: Mapping[str, Callable[[str], Any]]) -> StoreURL:
    """Split the part after ``://`` and read its options."""
    rest, _, fragment = rest.partition("#")
    if fragment:
        raise ConfigError(f"a {scheme}:// URL has no '#'; write %23 for it in a path or a password")
    place, _, query = rest.partition("?")
    if "@" in query.partition("&")[0].partition("=")[0]:  # no option has such a name
        said = "has an '@' behind '?': write %3F for a '?' in a password"
        raise ConfigError(f"a {scheme}:// URL {said}")
    host, slash, path = place.partition("/")
    userinfo, at, host = host.rpartition("@")
    if "@" in path and (host or scheme not in FILES):
        raise ConfigError(
            f"a {scheme}:// URL has an '@' behind its first '/'; write %2F for a '/' in a "
            "password, and %40 for an '@' in a path"
        )
    sound = bool(_HOSTS.fullmatch(host)) and not _ODD.search(path)
    sound = sound and (bool(at) or not host.startswith(":"))
    if scheme not in FILES:
        for part, text in (("login", userinfo), ("host", host), ("path", path)):
            _check_text(scheme, f"the {part} of this URL", text)
    return StoreURL(
        scheme=scheme,
        host=host,
        path=plain(slash + path),
        options=_options(scheme, query, known, sound and "@" not in query),
        secret=userinfo if at else "",
    )


def plain(text: str) -> str:
    """A part of a URL with its percent-encoding removed."""
    if "%" not in text:
        return text
    from urllib.parse import unquote  # because it takes 4 ms to import

    return unquote(text)


def _check_text(scheme: str, what: str, text: str) -> None:
    """Refuse text that no server can receive. Drivers would cut it off, or raise various errors."""
    try:
        if "%" in text:
            from urllib.parse import unquote

            text = unquote(text, errors="strict")
        text.encode()
    except UnicodeError:
        raise ConfigError(
            f"{scheme}://: {what} isn't UTF-8 text; write each byte of its UTF-8 as %XX"
        ) from None
    if "\0" in text:
        raise ConfigError(f"{scheme}://: {what} contains a NUL character; remove it")


def _options(
    scheme: str, query: str, known: Mapping[str, Callable[[str], Any]], sound: bool
) -> dict[str, Any]:
    """Return the options, read. ``sound``: True if no part of the URL can belong to a password, so
    that an error may show the name of an option."""
    if not query:
        return {}
    from urllib.parse import parse_qsl

    options: dict[str, Any] = {}
    if scheme not in FILES:
        _check_text(scheme, "the text after its '?'", query)
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in known:
            named = f"option {key!r}" if sound and _WORD.fullmatch(key) else "such option"
            raise ConfigError(f"{scheme}:// has no {named}; {did_you_mean(key, known)}")
        try:
            options[key] = known[key](value)
        except ValueError as wrong:
            raise ConfigError(f"{scheme}:// option {key}: {wrong}") from None
    return options


def scrubbed(text: str) -> str:
    """Return a text, such as an error, without the part before an '@' in each URL."""
    return re.sub(r"://\S*@", "://***@", text)
