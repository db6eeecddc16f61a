"""A connection that was given up counts as one of the pool until the server has ended it, too."""

from __future__ import annotations

import pytest

from holdfast import StoreUnavailable
from holdfast.stores.postgres.blocking import cancel, ending
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import HOLD_REQUEST, Proxy
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until

from .conftest import proxied

#: What a client says before it closes a connection.
GOODBYE = b"X\0\0\0\4"


def sessions(server: PostgresServer, label: str) -> int:
    """Sessions of clients that call themselves so."""
    ((many,),) = server.ask(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", label
    )
    return int(many)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_session_that_the_server_has_not_ended_counts(
    shared_postgres: PostgresServer,
    proxy: Proxy,
    own_name: str,
    face: Face,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cancel, "DEAF_S", 60.0)
    monkeypatch.setattr(cancel, "HELD_S", 60.0)
    monkeypatch.setattr(ending, "ENDS_S", 60.0)
    url = f"{proxied(proxy)}&pool=1&application_name={own_name}"

    async def main() -> None:
        client = face.client(url)
        held = await client.lock(f"{own_name}:held", ttl=60).acquire()
        goodbye = proxy.arm(GOODBYE, HOLD_REQUEST, 100)

        async def give_up(sessions: int) -> None:
            while goodbye.hits < sessions:
                proxy.hold("reply")
                with pytest.raises(StoreUnavailable):
                    await client.lock(f"{own_name}:first").acquire(timeout=0)
                proxy.heal()
                await face.sleep(0.1)

        # Given a request that was given up and then answered, whose session hasn't ended
        await give_up(1)
        # When somebody wants something
        with pytest.raises(StoreUnavailable, match="in use"):
            await client.lock(f"{own_name}:second").acquire(blocking=False)
        # Then no other session was made
        assert await face.outside(lambda: sessions(shared_postgres, own_name)) == 1
        # But for those who renew and release, however many there are
        await held.extend()
        await give_up(2)
        assert await held.release()
        # When the session has ended
        goodbye.let_go()
        async with client.lock(f"{own_name}:second", timeout=20):
            pass
        await client.close()

    face.run(main, 60.0)
    until(lambda: not sessions(shared_postgres, own_name), "all sessions have ended")


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_connection_that_was_never_made_counts_until_the_server_has_ended_it(
    proxy: Proxy, own_name: str, face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "ENDS_S", 60.0)
    url = f"{proxied(proxy)}&pool=1&application_name={own_name}"

    async def main() -> None:
        client = face.client(url)
        # Given a server that is slow to take connections
        begin = proxy.arm(own_name.encode(), HOLD_REQUEST, 100)
        # When somebody with little time tries again and again
        for _ in range(5):
            with pytest.raises(StoreUnavailable):
                await client.lock(own_name).acquire(timeout=0)
        # Then the server has one to take
        assert proxy.connections == 1
        begin.let_go()
        async with client.lock(own_name, timeout=20):
            pass
        await client.close()

    face.run(main, 60.0)
