"""The least rights that the page names suffice, and none of them is unused."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import AsyncClient, Client, ConfigError, HoldfastError, NotHeld
from holdfast.stores.redis.aio import port
from holdfast.stores.redis.blocking import ear
from holdfast.stores.redis.keys import keys_of
from holdfast.testing.faults import RESET_REPLY, RESP, Proxy
from tests.servers.fixtures import NewRedis
from tests.servers.process import SOON_S, until
from tests.servers.redis_server import RedisServer, old_program, program
from tests.tidy.tree import ROOT

PAGE = ROOT / "docs" / "stores" / "redis.md"
USER, PASSWORD = "holdfast", "secret"
#: A lease with room for a busy machine, and a time in which it is renewed (after a third of it).
TTL_S, RENEWED_S = 3.0, 1.2
#: Commands that the tests themselves run.
THEIRS = {"acl", "config", "info", "hset", "set"}


def rights() -> list[str]:
    """Return the line of an ACL file that the page shows, as words."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"<!-- rights -->\n```\n(.*?)```", text, re.DOTALL)
    assert found, "the page shows no rights"
    words = found[1].split()
    assert words[:4] == ["user", USER, "on", f">{PASSWORD}"]
    return words


def without(gone: str) -> str:
    """Return that line without the words that begin so."""
    return " ".join(word for word in rights() if not word.startswith(gone))


def commands() -> set[str]:
    """Return the commands that the user may run, in the words of INFO."""
    return {word[1:] for word in rights() if word.startswith("+")}


@pytest.fixture(params=[program, old_program], ids=["usual", "6.2"])
def server(request: pytest.FixtureRequest, new_redis: NewRedis) -> RedisServer:
    """A server whose user has these rights, in the usual and in the oldest supported version."""
    return new_redis(users=(" ".join(rights()),), server=request.param())


def url(server: RedisServer, *, port: int = 0, options: str = "") -> str:
    return server.url_for(USER, PASSWORD, port=port).removesuffix("/0") + f"/1?{options}"


def denied(server: RedisServer) -> list[str]:
    """Return all requests that were refused because a right is missing, even unreported ones."""
    return [str(one) for one in server.ask("ACL", "LOG")]


# -- every operation -------------------------------------------------------------------------


def everything(locks: Client, server: RedisServer, address: str) -> None:
    with locks.lock("plain", meta="why", min_hold=0.01):
        assert locks.lock("plain").acquire(blocking=False) is None
        assert [one.name for one in locks.inspect("pl")] == ["plain"]
    renewed(locks)
    handed_over(locks, address)
    given_up(locks)
    with locks.rwlock("both").write as writer:
        writer.downgrade()
        writer.extend(20)
    with locks.all("one", "two"):
        pass
    token = locks.lock("later").acquire().detach()
    assert locks.adopt(token).release()
    with pytest.raises(NotHeld):
        locks.adopt(token)
    broken = locks.lock("broken").acquire()
    assert locks.break_("broken", broken.fence)
    assert not broken.release()
    crowd(locks)
    expired(locks)
    foreign(locks, server)
    suspect(server, address)


def renewed(locks: Client) -> None:
    with locks.lock("renewed", ttl=TTL_S) as hold, locks.semaphore("renewed too", 2, ttl=TTL_S):
        fence, seen = hold.fence, threading.Event()
        hold.on_lost(lambda *_: seen.set())
        assert not seen.wait(RENEWED_S)
        assert hold.fence == fence


def handed_over(locks: Client, address: str, times: int = 2) -> None:
    """Release to a waiter: first before its address is known, and then after that."""
    with Client(address) as other:
        for _ in range(times):
            hold = locks.lock("handed over").acquire()
            thread = threading.Thread(target=pass_through, args=(other, "handed over"))
            thread.start()
            until(lambda: waiters(locks, "handed over"), "the other waits")
            assert hold.release()
            thread.join(10)


def given_up(locks: Client) -> None:
    """Let one of three waiters leave the line; the others are granted over the gap."""
    hold = locks.lock("given up").acquire()
    with ThreadPoolExecutor(3) as pool:
        for number, timeout in enumerate((10, 2.5, 10), 1):
            pool.submit(try_for, locks, "given up", timeout)
            until(lambda: waiters(locks, "given up") == number, "one more waits")  # noqa: B023
        until(lambda: waiters(locks, "given up") == 2, "one gives up")
        assert hold.release()


def try_for(client: Client, name: str, timeout: float) -> None:
    if hold := client.lock(name).acquire(timeout=timeout):
        hold.release()


def pass_through(client: Client, name: str) -> None:
    with client.lock(name, timeout=10):
        pass


def waiters(locks: Client, name: str) -> int:
    return sum(len(line.waiters) for line in locks.inspect(name, exact=True))


def crowd(locks: Client) -> None:
    """Refuse, resize and break with a semaphore of many holders; refuse with one of few."""
    with locks.semaphore("few", 2), locks.semaphore("few", 2):
        assert locks.semaphore("few", 2).acquire(blocking=False) is None
    holds = [locks.semaphore("crowd", 40).acquire() for _ in range(40)]
    assert locks.semaphore("crowd", 40).acquire(blocking=False) is None
    with pytest.raises(ConfigError, match="40"):
        locks.semaphore("crowd", 41).acquire(blocking=False)
    assert locks.semaphore("crowd", 40).resize(41) == 40
    assert locks.break_("crowd", holds[0].fence)
    for hold in holds:
        hold.release()


def expired(locks: Client) -> None:
    """Let the leases of two holders expire; the next claim gets a permit."""
    dead = [locks.semaphore("dead", 2, ttl=0.05, auto_renew=False).acquire() for _ in range(2)]
    again = locks.semaphore("dead", 2, timeout=5).acquire()
    assert again
    assert again.release()
    time.sleep(0.1)  # or the second one has a moment left
    assert [hold.release() for hold in dead] == [False, False]


def foreign(locks: Client, server: RedisServer) -> None:
    """Put keys of another program in the place of holdfast's; they are named and unchanged."""
    state, waits, *_ = (key.decode() for key in keys_of("holdfast", b"foreign"))
    with server.client(db=1) as admin:
        admin.set(state, "mine")
        with pytest.raises(HoldfastError, match=re.escape(state)):
            locks.lock("foreign").acquire(blocking=False)
        assert admin.get(state) == b"mine"
        # And the second key of a line that lost its first key is removed
        admin.delete(state)
        admin.hset(waits, "q1", "left over")
        hold = locks.lock("foreign").acquire()
        thread = threading.Thread(target=pass_through, args=(locks, "foreign"))
        thread.start()
        until(lambda: waiters(locks, "foreign"), "a client waits")
        assert hold.release()
        thread.join(10)


def suspect(server: RedisServer, address: str) -> None:
    """Lose the reply to a join: it is sent again, and its release leaves a tombstone."""
    with Proxy(server.host, server.port, RESP) as proxy:
        options = address.partition("?")[2]
        with Client(url(server, port=proxy.port, options=options)) as locks:
            pass_through(locks, "warm up")
            fault = proxy.arm(b"suspect", RESET_REPLY)
            pass_through(locks, "suspect")
            assert fault.hits == 1
            pass_through(locks, "suspect")


async def everything_with_a_loop(address: str) -> None:
    """Run the operations that work differently under asyncio."""
    async with AsyncClient(address) as locks, AsyncClient(address) as other:
        hold = await locks.lock("loop", ttl=TTL_S).acquire()
        waiting = asyncio.create_task(pass_through_with_a_loop(other))
        async with asyncio.timeout(SOON_S):
            while not any(line.waiters for line in await locks.inspect("lo")):
                await asyncio.sleep(0)
        await asyncio.sleep(RENEWED_S)
        hold.check()
        assert await hold.release()
        await waiting
        # And a client that is closed while its request is under way
        closing = asyncio.create_task(other.lock("closing").acquire())
        await asyncio.sleep(0)
        await other.close()
        await asyncio.gather(closing, return_exceptions=True)


async def pass_through_with_a_loop(locks: AsyncClient) -> None:
    async with locks.lock("loop", timeout=10):
        pass


# -- the tests -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_rights_of_the_page_suffice_and_none_is_unused(
    server: RedisServer, protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a server that counts calls, and has none of the scripts
    for listening in (ear, port):  # otherwise no client waits long enough to check the server
        monkeypatch.setattr(listening, "SILENT_S", 0.3)
    server.ask("ACL", "LOG", "RESET")
    server.ask("CONFIG", "RESETSTAT")
    # When every operation has run once
    address = url(server, options=f"protocol={protocol}")
    with Client(address) as locks:
        everything(locks, server, address)
    asyncio.run(everything_with_a_loop(address))
    # Then nothing was denied
    assert denied(server) == []
    # And every right was used
    called = set(server.calls())
    if server.version < (7, 0):  # it doesn't count them apart
        called |= {word for word in commands() if word.partition("|")[0] in called}
    assert commands() - called == set()


@pytest.mark.parametrize("gone", ["&holdfast:*", "+publish", "+subscribe"])
@pytest.mark.parametrize("protocol", [2, 3])
def test_without_the_right_to_wake_each_other_waiting_only_takes_longer(
    new_redis: NewRedis, gone: str, protocol: int
) -> None:
    server = new_redis(users=(without(gone),))
    address = url(server, options=f"protocol={protocol}")
    with Client(address) as locks:
        handed_over(locks, address, times=1)


def test_a_name_for_the_connection_is_not_insisted_on(new_redis: NewRedis) -> None:
    server = new_redis(users=(without("+client|setname"),))
    with Client(url(server)) as locks:
        pass_through(locks, "x")
    asyncio.run(everything_with_a_loop(url(server)))
