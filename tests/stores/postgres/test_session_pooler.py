"""PgBouncer in session mode, as the URL states: waiters get wake-ups, as without a pooler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from holdfast.core.finding import Level
from holdfast.testing.faces import FACES, Face
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres_server import PostgresServer
from tests.servers.process import until
from tests.stores.examined import worst
from tests.stores.postgres.conftest import Bench, asked_when_woken

SESSIONS = 40
#: The URL options; with recovery off, the client sends no requests by itself.
SAID = "?pooler=session&recovery=off"


@pytest.fixture(scope="module")
def pooler(shared_postgres: PostgresServer) -> Iterator[PgBouncer]:
    with PgBouncer(shared_postgres, "session", SESSIONS) as one:
        yield one


@pytest.fixture(scope="module")
def sharing(shared_postgres: PostgresServer) -> Iterator[PgBouncer]:
    """A pooler in transaction mode, whatever the URL states."""
    with PgBouncer(shared_postgres) as one:
        yield one


@pytest.mark.usual(2)
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_waiters_are_woken(pooler: PgBouncer, own_name: str, face: Face) -> None:
    url = pooler.url + SAID
    assert asked_when_woken(face, (url, url), own_name, 3) == (0, True)


def test_without_the_option_pooler_no_client_listens(pooler: PgBouncer, own_name: str) -> None:
    asked, woken = asked_when_woken(FACES["sync"], (pooler.url, pooler.url), own_name, 1)
    assert asked > 0
    assert not woken


@pytest.mark.parametrize("face", FACES.values(), ids=["threads", "tasks"])
def test_a_wrong_pooler_option_is_noticed_before_any_client_listens(
    face: Face, sharing: PgBouncer, own_name: str, caplog: pytest.LogCaptureFixture, url: str
) -> None:
    # When a client waits there, and no other client uses its sessions
    asked, woken = asked_when_woken(face, (url, sharing.url + SAID), own_name, 1)
    assert not woken
    assert asked > 0
    # Then the wrong option is logged
    assert "isn't in session mode" in caplog.text
    # And no session that other clients get listens to a channel
    with ExitStack() as stack:
        for _ in range(5):
            plain = stack.enter_context(psycopg.connect(sharing.url, prepare_threshold=None))
            row = plain.execute("SELECT count(*) FROM pg_listening_channels()").fetchone()
            assert row == (0,)


def test_doctor_distinguishes_the_kinds_of_poolers(pooler: PgBouncer, sharing: PgBouncer) -> None:
    said = worst(pooler.url + SAID)
    assert said["pooler"].level is Level.OK
    assert "arrives" in said["wake-ups"].text
    unsaid = worst(pooler.url)["pooler"]
    assert unsaid.level is Level.WARN
    assert "pooler=session" in unsaid.remedy
    wrong = worst(sharing.url + SAID)
    assert wrong["pooler"].level is Level.FAIL
    assert "wake-ups" not in wrong


def test_a_session_returned_to_the_pooler_listens_to_no_channel(
    pooler: PgBouncer, own_name: str, bench: Bench
) -> None:
    # Given a client that has listened, and is closed
    asked_when_woken(FACES["sync"], (pooler.url + SAID,) * 2, own_name, 1)
    # Then a session that is used again listens to no channel
    listening = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
    until(lambda: not bench.ask(listening), "the sessions are returned to the pool")
    with psycopg.connect(pooler.url, prepare_threshold=None) as plain:
        row = plain.execute("SELECT count(*) FROM pg_listening_channels()").fetchone()
        assert row == (0,)
