"""URLs, logins, rights, and kazoo clients that the caller supplies."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from holdfast import AsyncClient, Client, ConfigError, StoreUnavailable
from holdfast.core.model import Loss
from holdfast.stores.zookeeper.config import Settings, lease_of, settings
from holdfast.url import find
from tests.servers.process import free_port
from tests.servers.tls import Certificate
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.zookeeper.conftest import MakeClient


@pytest.mark.parametrize(
    "text, hosts, root",
    [
        ("zookeeper://a", "a:2181", "/holdfast"),
        ("zk://a,b:1,[::1]:2,[::2]", "a:2181,b:1,[::1]:2,[::2]:2181", "/holdfast"),
        ("zookeeper://a/x/y", "a:2181", "/x/y/holdfast"),
        ("zookeeper://a/x?prefix=", "a:2181", "/x"),
        ("zookeeper://a?prefix=/p/q/", "a:2181", "/p/q"),
    ],
)
def test_a_url_names_the_hosts_and_the_root_of_the_lines(text: str, hosts: str, root: str) -> None:
    found = settings(find(text)[1])
    assert (found.hosts, found.root) == (hosts, root)
    assert (found.session, found.recipe, found.acl) == (30.0, "kazoo", "open")


@pytest.mark.parametrize(
    "text, words",
    [
        ("zookeeper://", "names the servers"),
        ("zookeeper://a?prefix=", "needs a chroot"),
        ("zookeeper://a?prefix=..", "parts of letters"),
        ("zookeeper://a/x%20y", "chroot"),
        ("zookeeper://a b", "a host and port"),
        ("zookeeper://a?session=0.1", "must be from"),
        ("zookeeper://a?recipe=kazo", 'did you mean "kazoo"'),
        ("zookeeper://a?sesion=3", 'did you mean "session"'),
        ("zookeeper://a?sasl=digest-md5", "user:password@"),
    ],
)
def test_what_can_not_be_right_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settings(find(text)[1])


def test_logins_and_tls_are_handed_to_kazoo_as_it_wants_them(certificate: Certificate) -> None:
    def of(text: str) -> Settings:
        found = settings(find(f"zookeeper://{text}")[1])
        assert "secret" not in repr(found) + found.label
        return found

    digest = of("an%40n:se%3Asecret@a")
    assert (digest.auth, digest.acl) == ((("digest", "an@n:se:secret"),), "creator")
    by_sasl = of("ann:secret@a?sasl=digest-md5")
    assert by_sasl.auth == ()
    assert by_sasl.sasl == {"mechanism": "DIGEST-MD5", "username": "ann", "password": "secret"}
    assert of("a?sasl=gssapi").sasl == {"mechanism": "GSSAPI", "service": "zookeeper"}
    ca = str(certificate.certificate)
    secure = {"use_ssl": True, "verify_certs": True, "check_hostname": False, "ca": ca}
    assert of(f"a?ca={ca}&check_hostname=off").tls == secure
    # One file that contains certificate and key is enough, though kazoo expects two names
    tls = of(f"a?certfile={certificate.both}").tls
    assert tls["keyfile"] == tls["certfile"] == str(certificate.both)


def test_a_password_shows_nowhere(
    zookeeper_url: str, own_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = zookeeper_url.replace("://", "://ann:s3cret@") + f"?prefix={own_name}"
    with Client(url) as client, client.lock("x") as hold:
        shown = [repr(client), repr(hold), str(client.inspect()), client.url]
    shown.append(caplog.text)
    assert "s3cret" not in "".join(shown)


def test_nodes_made_with_a_login_belong_to_it_alone(
    zookeeper_url: str, own_name: str, kazoo: KazooClient, new_client: MakeClient
) -> None:
    url = zookeeper_url.replace("://", "://ann:secret@") + f"?prefix={own_name}"
    ann = new_client(url)
    hold = ann.lock("x", ttl=3).acquire()
    # Then another user can neither inspect, nor lock, nor break
    bob = new_client(url.replace("ann:", "bob:"))
    for act in (bob.inspect, lambda: bob.break_("x", hold.fence), bob.lock("x").acquire):
        with pytest.raises(ConfigError, match="doesn't let us"):
            act()
    with pytest.raises(NoAuthError):
        kazoo.get_children(f"/{own_name}/x")
    hold.check()
    # And the same user can break the hold
    again = new_client(url)
    assert again.break_("x", hold.fence) is True
    assert hold.wait_lost(15) is Loss.BROKEN


def test_a_chroot_is_made_if_it_is_not_there(
    zookeeper_url: str, own_name: str, kazoo: KazooClient, new_client: MakeClient
) -> None:
    client = new_client(f"{zookeeper_url}/{own_name}/deep?prefix=")
    with client.lock("x"):
        assert len(kazoo.get_children(f"/{own_name}/deep/x")) == 1
    for text in (f"{zookeeper_url}/{own_name}", zookeeper_url):
        assert new_client(text).inspect("x") == []


def test_a_given_client_supplies_its_settings_and_stays_unchanged(
    shared_zookeeper: ZooKeeperServer, own_name: str
) -> None:
    login = [("digest", "ann:secret")]
    given = KazooClient(f"{shared_zookeeper.place}/{own_name}", timeout=7.0, auth_data=login)
    # The given client need not be connected
    with Client(given) as client, client.lock("x", ttl=30) as hold:
        assert hold.ttl == lease_of(7.0)
        assert given.client_id is None
    given.start(20)
    session = given.client_id
    with Client(given) as client, client.lock("x"):
        assert given.exists("/holdfast/x") is not None

    async def play() -> None:
        async with AsyncClient(given) as locks, locks.lock("x"):
            pass

    asyncio.run(play())
    # And the given client stays open, in its own session
    assert given.connected
    assert given.client_id == session
    stat = given.exists("/holdfast/x")
    assert stat is None or stat.numChildren == 0  # an empty folder goes soon
    given.stop()
    given.close()


def test_a_session_that_is_too_long_is_an_error_with_the_servers_limit(
    zookeeper_url: str, new_client: MakeClient
) -> None:
    client = new_client(f"{zookeeper_url}?session=90")
    with pytest.raises(ConfigError, match="session=60"):
        client.lock("x").acquire()


def test_a_lease_is_shorter_than_the_session_and_a_longer_one_without_renewal_is_refused(
    zookeeper_url: str, new_client: MakeClient, own_name: str
) -> None:
    url = f"{zookeeper_url}?session=4"
    client = new_client(url)
    # Given a long ttl, or none and no renewal: the lock is granted, and the hold names its ttl
    for options in ({"ttl": 20}, {"auto_renew": False}, {"ttl": 20, "max_hold": 20}):
        with client.lock(own_name, **options) as hold:
            assert hold.ttl == 2.5
            assert 1.0 < hold.remaining() <= 2.5
            assert hold.extend(20) <= 2.5
    # Given a ttl that is too long, of the lock or of the client: it is refused with the remedy
    words = r"no lease of more than 2\.5 s.*max_hold=20 instead of auto_renew=False"
    with pytest.raises(ConfigError, match=words):
        client.lock(own_name, ttl=20, auto_renew=False)
    with pytest.raises(ConfigError, match=words):
        new_client(url, ttl=20).lock(own_name, auto_renew=False)


def test_a_server_that_comes_late_is_found(new_zookeeper: Callable[..., ZooKeeperServer]) -> None:
    # Given a client whose server has not started yet
    port = free_port()
    with Client(f"zookeeper://127.0.0.1:{port}") as client, ThreadPoolExecutor(1) as pool:
        got: list[int] = []

        def wait() -> None:
            end = time.monotonic() + 40
            while not got and time.monotonic() < end:
                with suppress(StoreUnavailable):
                    got.append(client.lock("x", timeout=1).acquire().fence)

        waiter = pool.submit(wait)
        # When the server starts
        new_zookeeper(port=port)
        # Then the client uses it, though earlier attempts have failed
        waiter.result(30)
        assert got
