"""Connection settings from a URL, or from a client of kazoo. No driver is imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.url_options import seconds, word
from ...errors import ConfigError
from ...runtime import tls
from .names import KAZOO, RECIPES

if TYPE_CHECKING:
    from ...url import StoreURL

PORT = 2181
DEFAULT_PREFIX = "holdfast"
#: Seconds. Equal to the default ttl, so that a crash is noticed as fast as on other stores.
DEFAULT_SESSION_S = 30.0
#: Limits of ``session`` in seconds. A shorter session would end when a machine is busy for a
#: moment.
SESSION_S_MIN, SESSION_S_MAX = 0.4, 3600.0
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s\[\]:/@]+)(?::\d{1,5})?")


#: Maximum silence of the driver: a tenth of the session, or 0.5 seconds if that is longer; but
#: never more than a third of the session.
SILENT_PART, SILENT_S = 0.1, 0.5
#: Half a server tick is at most this part of a session, because a session is at least two ticks.
#: Twice per tick, a follower reports to its leader the clients that it has seen.
_TOLD_PART = 0.25


def silent(session: float) -> float:
    """Return the maximum seconds between two messages of the driver to the server.

    >>> silent(30.0), silent(2.0)
    (3.0, 0.5)
    """
    return min(max(session * SILENT_PART, SILENT_S), session / 3)


def lease_of(session: float) -> float:
    """Return the lease that an answered write gives, in seconds from when it was sent.

    ``session`` is the length of the session in seconds. The leader counts a session from the last
    sign of life of its client. A request through a follower, even a write, isn't a sign of life for
    the leader: the follower reports the clients that it has seen, twice per tick. So if a follower
    is cut off just as it answers a write, the leader may count from an earlier sign of life. That
    sign of life is older than the write by at most the silence before the write plus half a tick.

    >>> lease_of(30.0), lease_of(2.0)
    (19.5, 1.0)
    """
    return session - silent(session) - session * _TOLD_PART


class Settings(NamedTuple):
    """The address of an ensemble, the credentials, and the folder of the lines of claims."""

    hosts: str
    #: The folder of the names: the chroot of the URL and the prefix.
    root: str
    label: str
    session: float = DEFAULT_SESSION_S
    recipe: str = KAZOO
    #: The rights of others on our nodes: "open", "creator"; or ACLs as kazoo objects.
    acl: Any = "open"
    #: (scheme, credential) pairs, as kazoo's ``auth_data``.
    auth: tuple[tuple[str, str], ...] = ()
    #: Options of pure-sasl, as kazoo's ``sasl_options``.
    sasl: Mapping[str, Any] | None = None
    #: TLS, as kazoo's arguments.
    tls: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        return f"Settings({self.label!r})"


def _prefix(text: str) -> str:
    parts = text.strip("/").split("/") if text.strip("/") else []
    if not all(_PART.fullmatch(one) for one in parts):
        raise ValueError("parts of letters, digits and any of _ . -, with / between them")
    return "/".join(parts)


def _text(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


OPTIONS: dict[str, Callable[[str], Any]] = {
    "prefix": _prefix,
    "session": seconds(SESSION_S_MIN, SESSION_S_MAX),
    "recipe": word(*RECIPES),
    "acl": word("open", "creator"),
    "sasl": word("digest-md5", "gssapi"),
    "tls": word("on", "off"),
    "ca": _text,
    "certfile": _text,
    "keyfile": _text,
    "keyfile_password": _text,
    "check_hostname": word("on", "off"),
}


def settings(url: StoreURL) -> Settings:
    """Return the settings of a URL, or of a given client."""
    if url.native is not None:
        return _given(url.native)
    hosts = [one for one in url.host.split(",") if one]
    if not hosts:
        raise ConfigError(
            "a zookeeper:// URL names the servers, as in zookeeper://host1,host2:2181/chroot"
        )
    for one in hosts:
        if not _HOST.fullmatch(one):
            raise ConfigError(f"{url}: this isn't a host and port; write host or host:{PORT}")
    full = ",".join(one if re.search(r":\d+$", one) else f"{one}:{PORT}" for one in hosts)
    chroot = _chroot(url.path)
    options = url.options
    user, password = url.login[0], url.login[1] or ""
    if password and not user:
        raise ConfigError("a zookeeper:// URL has a password, but no user: write user:password@")
    sasl = _sasl(options.get("sasl", ""), user, password)
    login = bool(user) and sasl is None
    root = "/".join(["", *filter(None, [chroot, options.get("prefix", DEFAULT_PREFIX)])])
    if not root:
        raise ConfigError(
            "with an empty prefix a zookeeper:// URL needs a chroot: names must not be next to "
            "ZooKeeper's own"
        )
    return Settings(
        hosts=full,
        root=root,
        label=f"zookeeper://{url.host}{'/' + chroot if chroot else ''}",
        session=options.get("session", DEFAULT_SESSION_S),
        recipe=options.get("recipe", KAZOO),
        acl=options.get("acl", "creator" if user or sasl else "open"),
        auth=(("digest", f"{user}:{password}"),) if login else (),
        sasl=sasl,
        tls=_tls(options),
    )


def _chroot(path: str) -> str:
    parts = [one for one in path.split("/") if one]
    if not all(_PART.fullmatch(one) for one in parts):
        raise ConfigError(
            "the chroot (the path) of a zookeeper:// URL may have parts of letters, digits and any "
            "of _ . -, with / between them"
        )
    return "/".join(parts)


def _sasl(mechanism: str, user: str, password: str) -> dict[str, Any] | None:
    if not mechanism:
        return None
    if mechanism == "gssapi":
        found = {"mechanism": "GSSAPI", "service": "zookeeper"}
        return {**found, "principal": user} if user else found
    if not user:
        raise ConfigError("sasl=digest-md5 needs user:password@ in the zookeeper:// URL")
    return {"mechanism": "DIGEST-MD5", "username": user, "password": password}


def _tls(options: Mapping[str, Any]) -> dict[str, Any]:
    files = {name: options[name] for name in _FILES.values() if name in options}
    said = [*files, *({"check_hostname"} & options.keys())]
    if options.get("tls", "on" if files else "off") != "on":
        if said:
            raise ConfigError(
                f"zookeeper:// option {said[0]}: this connection doesn't use TLS; leave it out, "
                "or write tls=on"
            )
        return {}
    tls.context("zookeeper", _FILES, files)
    if "certfile" in files:  # kazoo sends no certificate without a key file
        files.setdefault("keyfile", files["certfile"])
    return {
        "use_ssl": True,
        "verify_certs": True,
        "check_hostname": options.get("check_hostname", "on") == "on",
        **files,
    }


_FILES = {"ca": "ca", "cert": "certfile", "key": "keyfile", "password": "keyfile_password"}


def _given(client: Any) -> Settings:
    """Return settings with which we connect in the same way as a given kazoo client."""
    hosts = ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in client.hosts
    )
    chroot = client.chroot.strip("/")
    tls = {
        name: getattr(client, name)
        for name in ("use_ssl", "verify_certs", "check_hostname", *_FILES.values())
    }
    return Settings(
        hosts=hosts,
        root="/".join(["", *filter(None, [chroot, DEFAULT_PREFIX])]),
        label=f"zookeeper://{hosts}{'/' + chroot if chroot else ''}",
        session=client._session_timeout / 1000.0,
        acl=client.default_acl or "open",
        auth=tuple(client.auth_data),
        sasl=client._connection.sasl_options,
        tls=tls if client.use_ssl else {},
    )
