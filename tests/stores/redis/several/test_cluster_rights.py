"""The least rights in a cluster: the rights for one server, and the rights that the page adds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from holdfast import Client, ConfigError
from tests.servers.cluster import Cluster
from tests.stores.redis.added import added
from tests.stores.redis.test_rights import (
    PASSWORD,
    USER,
    everything_with_a_loop,
    handed_over,
    pass_through,
    renewed,
    rights,
)

#: Rights that one server needs and a cluster doesn't.
USELESS = {"+select", "+subscribe", "+publish", "&holdfast:*"}


MORE = added("rights in a cluster")


@pytest.fixture
def enabled(cluster: Cluster) -> Iterator[list[str]]:
    """The words of a user with these rights and no others; pass them to `allow`."""
    yield [word for word in rights()[1:] if word not in USELESS] + MORE
    for one in cluster.servers:
        one.ask("ACL", "DELUSER", USER)


def allow(cluster: Cluster, words: list[str]) -> str:
    """Create the user, reset all counts, and return the URL with this user."""
    for one in cluster.servers:
        one.ask("ACL", "SETUSER", *words)
        one.ask("ACL", "LOG", "RESET")
        one.ask("CONFIG", "RESETSTAT")
        one.ask("SCRIPT", "FLUSH")
    return cluster.url.replace("://", f"://{USER}:{PASSWORD}@")


def denied(cluster: Cluster) -> list[str]:
    """Return all requests that were refused because a right is missing, even unreported ones."""
    return [str(entry) for one in cluster.servers for entry in one.ask("ACL", "LOG")]


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_rights_of_the_page_suffice(
    protocol: int, cluster: Cluster, enabled: list[str]
) -> None:
    address = f"{allow(cluster, enabled)}?protocol={protocol}"
    with Client(address) as locks:
        renewed(locks)
        handed_over(locks, address)
        with locks.all("one", "two", "three"):
            assert len(locks.inspect("")) == 3
    asyncio.run(everything_with_a_loop(address))
    assert denied(cluster) == []
    called = {name for one in cluster.servers for name in one.calls()}
    mine = {word[1:] for word in MORE if word.startswith("+")}
    assert mine - {"asking"} <= called


def test_without_channels_waiting_only_takes_longer(cluster: Cluster, enabled: list[str]) -> None:
    address = allow(cluster, [word for word in enabled if word != "+ssubscribe"])
    with Client(address) as locks:
        handed_over(locks, address, times=1)
    asyncio.run(everything_with_a_loop(address))


def test_without_the_map_nothing_works(cluster: Cluster, enabled: list[str]) -> None:
    address = allow(cluster, [word for word in enabled if word != "+cluster|slots"])
    with Client(address) as locks, pytest.raises(ConfigError, match=r"\+cluster\|slots"):
        pass_through(locks, "x")
