"""Stores from URLs: the reading of URLs and options, and the table of schemes.

A store is a module with four names: ``CAPABILITIES``, ``OPTIONS`` (option name -> a function that
reads its text or raises ``ValueError`` with what is allowed), ``open_blocking(url)`` and
``open_aio(url)``
(each returns a store with the five verbs for one kind of runtime). It is imported when its
scheme is first used, and never before. Others add stores through the entry-point group
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
    # As SQLAlchemy writes them, for a DATABASE_URL that others read, too.
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
#: Package of a driver -> the scheme of the store that takes clients of that driver.
NATIVE: dict[str, str] = {
    "redis": "redis",
    "kazoo": "zookeeper",
    "psycopg_pool": "postgresql",
    "sqlalchemy": "",  # by its dialect
}
#: The dialects of SQLAlchemy's whose engines are taken; each is the scheme of a store.
ENGINES = ("postgresql", "mysql", "mariadb")
ENV = "HOLDFAST_URL"
#: Set to anything, it lets a command have a URL with a password all the same.
PASS = "HOLDFAST_PASS_URL"  # noqa: S105 - the name of a variable
#: Set for a command that doesn't get it.
WITHHELD = "HOLDFAST_URL_WITHHELD"
#: The schemes whose path is a text of the user's, and in which no password can stand.
FILES = frozenset({"memory", "sqlite"})
#: What is shown of a URL: a part of a password that was put in the wrong place looks otherwise.
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_HOST = r"(?:[\w.%-]*|\[[0-9A-Fa-f:.%\w]*\])(?::[0-9]{0,5})?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*")
_ODD = re.compile(r"[:@]")
_WORD = re.compile(r"[a-z_]{1,40}")


class NativeCluster(Protocol):
    """A cluster client of a store's own driver, such as a ``redis.RedisCluster``."""

    @property
    def nodes_manager(self) -> Any:
        """What it knows of the nodes."""
        ...


class NativeClient(Protocol):
    """A client of a store's own driver, such as a ``redis.Redis``; it is not closed by us."""

    @property
    def connection_pool(self) -> Any:
        """Where it has its connections from."""
        ...


class NativeEnsemble(Protocol):
    """A client of a whole ensemble, such as a ``kazoo.client.KazooClient``; it is not closed."""

    @property
    def client_id(self) -> Any:
        """Its session."""
        ...


class NativePool(Protocol):
    """A pool of connections, such as a ``psycopg_pool.ConnectionPool``; holdfast neither closes nor
    uses it, but makes separate connections like the pool's."""

    @property
    def conninfo(self) -> Any:
        """How its connections are made."""
        ...


class NativeEngine(Protocol):
    """An engine of SQLAlchemy's, for threads or asyncio; as with a pool."""

    @property
    def dialect(self) -> Any:
        """Which database it is for."""
        ...


#: What may be given in place of a URL, made with a store's own driver.
Native: TypeAlias = NativeClient | NativeCluster | NativeEnsemble | NativePool | NativeEngine


class StoreURL(NamedTuple):
    """A URL taken apart. ``str()`` of it is safe to show: it has no password.

    Of a ``native`` client of the store's driver only the scheme is known here.
    """

    scheme: str
    host: str = ""
    path: str = ""
    options: Mapping[str, Any] = {}
    secret: str = ""
    native: Any = None

    @property
    def login(self) -> tuple[str, str | None]:
        """User and password, decoded; None: no password is given."""
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
    """What a module must have to be a store."""

    CAPABILITIES: Capabilities
    OPTIONS: Mapping[str, Callable[[str], Any]]

    def open_blocking(self, url: StoreURL) -> Store:
        """A store for threads."""
        ...

    def open_aio(self, url: StoreURL) -> Store:
        """A store for one asyncio event loop."""
        ...


def default_url() -> str:
    """``$HOLDFAST_URL``, else the embedded store in the user's private folder."""
    if ENV not in os.environ and os.environ.get(WITHHELD):  # others use what was meant
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
    """Was no store named to a client, so that it uses the default?"""
    return store is None and ENV not in os.environ


def source(store: str | os.PathLike[str] | Native | None) -> Any:
    """What names the store that a client was given: a URL, or a client of the store's driver.

    Given a path it is the URL of an embedded store, given nothing the default.
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
    """The package of the driver whose client this is, or an empty text."""
    packages = (one.__module__.partition(".")[0] for one in type(store).__mro__)
    return next((one for one in packages if one in NATIVE), "")


def _dialect(engine: Any) -> str:
    """The scheme of the store that takes an engine of SQLAlchemy's."""
    name = getattr(getattr(engine, "dialect", None), "name", None)
    if name is None:
        raise ConfigError(
            f"a {type(engine).__name__} of SQLAlchemy's is no engine: give its engine, as "
            "create_engine() has made it, or a URL"
        )
    if name not in ENGINES:
        raise ConfigError(f"no store takes an engine of SQLAlchemy's for {name}; give a URL")
    return str(name)


def portable(found: Any) -> str:
    """A source that another process can use too; a driver's client is none."""
    if isinstance(found, str):
        return found
    raise TypeError(
        f"this client was made from a {type(found).__name__}, which can't be sent to another "
        "process; make it from a URL"
    )


def schemes() -> dict[str, str]:
    """Every scheme that can be used here, and the module that serves it."""
    from importlib import metadata  # because it costs more than all of holdfast to import

    found = dict(BUILTIN)
    for entry in metadata.entry_points(group="holdfast.stores"):
        found.setdefault(entry.name, entry.value)
    return found


def find(text: Any) -> tuple[StoreModule, StoreURL]:
    """The store module and the parsed URL for a source: a text such as
    ``sqlite:///var/lib/x/locks.db``, or a driver's client."""
    if not isinstance(text, str):
        if type(text).__name__ in ("Connection", "AsyncConnection") and hasattr(text, "engine"):
            text = text.engine  # of SQLAlchemy's: what makes connections is wanted
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
    """Take the part after ``://`` apart and read its options."""
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
    """A part of a URL without percent signs: what is meant."""
    if "%" not in text:
        return text
    from urllib.parse import unquote  # because it takes 4 ms to import

    return unquote(text)


def _check_text(scheme: str, what: str, text: str) -> None:
    """Refuse text that no server can receive. Drivers cut it off, or raise errors of their
    choice."""
    try:
        if "%" in text:
            from urllib.parse import unquote

            text = unquote(text, errors="strict")
        text.encode()
    except UnicodeError:
        raise ConfigError(
            f"{scheme}://: {what} is no UTF-8 text; write each byte of its UTF-8 as %XX"
        ) from None
    if "\0" in text:
        raise ConfigError(f"{scheme}://: {what} has a NUL character in it; take it out")


def _options(
    scheme: str, query: str, known: Mapping[str, Callable[[str], Any]], sound: bool
) -> dict[str, Any]:
    """The options, read; ``sound``: what is before them can't be the beginning of a password."""
    if not query:
        return {}
    from urllib.parse import parse_qsl

    options: dict[str, Any] = {}
    if scheme not in FILES:
        _check_text(scheme, "what stands behind its '?'", query)
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
    """A text of others, such as an error, without what stands before an '@' in a URL."""
    return re.sub(r"://\S*@", "://***@", text)
