"""Addresses of several servers: watched by sentinels, or in a cluster.

redis-py finds out which server is the primary, and which node has which slots. This module only
collects the arguments for redis-py, from a URL or from a client of redis-py. No driver is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.url_options import any_text, is_port
from ...errors import ConfigError
from .config import Settings, settings

if TYPE_CHECKING:
    from ...url import StoreURL

#: Host and port.
Place = tuple[str, int]

SENTINEL_PORT = 26379
REDIS_PORT = 6379
_SENTINEL, _CLUSTER = "+sentinel", "+cluster"


#: Options of a URL for the sentinels, in addition to the options of one server.
OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "sentinel_username": any_text,
    "sentinel_password": any_text,
}


class Sentinels(NamedTuple):
    """The sentinels that watch the servers; ``arguments`` are for redis-py's connections to
    them."""

    settings: Settings
    places: tuple[Place, ...]
    service: str
    arguments: Mapping[str, Any]
    #: A sentinel that sees fewer other sentinels than this number isn't trusted.
    others: int = 0
    #: The address to use instead of the primary's, if any.
    force_ip: str | None = None

    def __repr__(self) -> str:
        return f"Sentinels({self.settings.label!r})"


class Members(NamedTuple):
    """Nodes of a cluster; any one of them reports all others."""

    settings: Settings
    places: tuple[Place, ...]
    #: The function by which redis-py changes the addresses that the nodes give.
    remap: Callable[[Place], Place] | None = None

    def __repr__(self) -> str:
        return f"Members({self.settings.label!r})"

    def at(self, place: Place) -> Settings:
        """The settings of this node."""
        host, port = place
        base = self.settings
        return base._replace(
            arguments={**base.arguments, "host": host, "port": port},
            label=f"{base.label} (its node {shown(place)})",
        )


def shown(place: Place) -> str:
    """A place in human-readable form.

    >>> shown(("::1", 6379))
    '[::1]:6379'
    """
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def topology(url: StoreURL) -> Sentinels | Members | None:
    """The sentinels or nodes that a URL or a given client names; None if it names one server."""
    if url.native is not None:
        return _of_client(url.native)
    if url.scheme.endswith(_SENTINEL):
        return _sentinels(url)
    if url.scheme.endswith(_CLUSTER):
        return _members(url)
    return None


def _one(url: StoreURL, ending: str, path: str) -> Settings:
    """The settings that all servers of the URL share: those of one server, without an address."""
    label = str(url._replace(path=url.path.rstrip("/")))
    plain = url._replace(scheme=url.scheme.removesuffix(ending), host="", path=path)
    found = settings(plain)
    if found.prefix != Settings._field_defaults["prefix"]:
        told = found.prefix if "@" not in found.prefix else "..."
        label += f"?prefix={told}"
    return found._replace(label=label)


def _places(url: StoreURL, port: int) -> tuple[Place, ...]:
    found = []
    for text in url.host.split(","):
        host, colon, number = text.strip().rpartition(":")
        if not colon or number.endswith("]"):
            host, number = text.strip(), str(port)
        host = host.removeprefix("[").removesuffix("]")
        if not host or not is_port(number):
            raise ConfigError(
                f"{url}: no host and port each; write {url.scheme}://host1:{port},host2:{port}"
            )
        found.append((host, int(number)))
    return tuple(found)


def _sentinels(url: StoreURL) -> Sentinels:
    places = _places(url, SENTINEL_PORT)
    service, _, database = url.path.strip("/").partition("/")
    if not service or ":" in service:
        raise ConfigError(
            f"{url} lacks the name that the sentinels give to the servers: write "
            f"{url.scheme}://host1,host2/NAME/0"
        )
    one = _one(url, _SENTINEL, "/" + database)
    mine = {
        key.removeprefix("sentinel_"): text
        for key, text in url.options.items()
        if key in OPTIONS and text
    }
    if one.kind == "tls":
        tls = {key: value for key, value in one.arguments.items() if key.startswith("ssl_")}
        mine = {**tls, "ssl": True, **mine}
    return Sentinels(one, places, service, mine)


def _members(url: StoreURL) -> Members:
    if url.path.strip("/") not in ("", "0"):
        raise ConfigError(f"{url}: a cluster has only database 0; leave the path out")
    one = _one(url, _CLUSTER, "")
    if one.arguments["db"]:
        raise ConfigError(f"{url}: a cluster has only database 0; leave db= out")
    return Members(one, _places(url, REDIS_PORT))


# -- given clients ------------------------------------------------------------------------------


def _of_client(client: Any) -> Sentinels | Members | None:
    manager = getattr(client, "nodes_manager", None)
    if manager is not None:
        return _of_cluster(manager)
    pool = getattr(client, "connection_pool", None)
    watch = getattr(pool, "sentinel_manager", None)
    if watch is None:
        return None
    if not getattr(pool, "is_master", True):
        raise ConfigError("a client of replicas can't be used as a store; use master_for()")
    return _of_sentinel(pool, watch)


def _of_sentinel(pool: Any, watch: Any) -> Sentinels:
    places = tuple(
        (str(given.get("host", "localhost")), int(given.get("port", SENTINEL_PORT)))
        for given in (one.connection_pool.connection_kwargs for one in watch.sentinels)
    )
    tls = any(base.__name__ == "SSLConnection" for base in pool.connection_class.__mro__)
    given = pool.connection_kwargs
    one = _settings(given, tls)
    if given.get("redis_connect_func") is not None:
        arguments = {**one.arguments, "redis_connect_func": given["redis_connect_func"]}
        one = one._replace(arguments=arguments)
    hosts = ",".join(map(shown, places))
    scheme = "rediss" if tls else "redis"
    label = f"{scheme}+sentinel://{hosts}/{pool.service_name}/{one.arguments['db']}"
    return Sentinels(
        one._replace(label=label),
        places,
        pool.service_name,
        {**watch.sentinel_kwargs},
        watch.min_other_sentinels,
        getattr(watch, "_force_master_ip", None),
    )


def _of_cluster(manager: Any) -> Members:
    given = manager.connection_kwargs
    made_of = given.get("connection_class")
    bases = made_of.__mro__ if isinstance(made_of, type) else ()
    tls = bool(given.get("ssl")) or any(base.__name__ == "SSLConnection" for base in bases)
    places = tuple((node.host, int(node.port)) for node in manager.startup_nodes.values())
    one = _settings(given, tls)
    scheme = "rediss" if tls else "redis"
    label = f"{scheme}+cluster://{','.join(map(shown, places))}"
    return Members(one._replace(label=label), places, manager.address_remap)


class _Pool(NamedTuple):
    """The part of a pool of redis-py that `settings` reads."""

    connection_kwargs: Mapping[str, Any]
    connection_class: type


class _Given(NamedTuple):
    connection_pool: _Pool


class Connection:
    """A stand-in for redis-py's classes of this name: `settings` reads only the name."""


class SSLConnection(Connection):
    """A stand-in for redis-py's classes of this name, too."""


#: Arguments of a given client that are for connections to servers, in addition to ``ssl_*``.
_OF_CONNECTIONS = frozenset(
    {
        "client_name",
        "credential_provider",
        "db",
        "password",
        "protocol",
        "socket_connect_timeout",
        "socket_keepalive",
        "socket_keepalive_options",
        "username",
    }
)


def _settings(given: Mapping[str, Any], tls: bool) -> Settings:
    from ...url import StoreURL

    kept = {
        key: value
        for key, value in given.items()
        if key in _OF_CONNECTIONS or (tls and key.startswith("ssl_"))
    }
    pool = _Pool(kept, SSLConnection if tls else Connection)
    return settings(StoreURL("redis", native=_Given(pool)))._replace(connection_class=None)
