"""A given-up connection counts against the pool until the server has ended its session."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from holdfast import Client
from holdfast.stores.postgres.aio import port as aio
from holdfast.stores.postgres.blocking import cancel, port
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import HOLD_REQUEST, Proxy, Strike
from tests.stores import ending

from .conftest import proxied

#: The message of a client before it closes a connection.
GOODBYE = b"X\0\0\0\4"


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_session_that_the_server_has_not_ended_counts(
    proxy: Proxy, own_name: str, face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel, "DEAF_S", ending.LONG_S)
    monkeypatch.setattr(cancel, "HELD_S", ending.LONG_S)
    url, last = f"{proxied(proxy)}&pool=1", (GOODBYE, HOLD_REQUEST)
    ending.a_session_counts_until_its_end(face, proxy, url, own_name, last, monkeypatch)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_connection_that_was_never_made_counts_until_the_server_has_ended_it(
    proxy: Proxy, own_name: str, face: Face, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port, "CONNECT_S", 0.1)
    monkeypatch.setattr(aio, "CONNECT_S", 0.1)
    url, first = f"{proxied(proxy)}&pool=1&application_name=x", b"application_name"
    ending.one_that_was_never_made_counts(face, proxy, url, own_name, first, monkeypatch)


@pytest.mark.parametrize("method", ending.WAY)
def test_an_interrupt_on_the_way_to_a_connection_or_back_keeps_no_place(
    postgres_url: str, own_name: str, method: str
) -> None:
    ending.no_interrupt_keeps_a_place(
        f"{postgres_url}?pool=1", own_name, getattr(port.ThreadPort, method)
    )


def test_an_interrupt_of_one_that_waits_keeps_no_other_from_listening(
    postgres_url: str, own_name: str
) -> None:
    with Client(postgres_url) as holder, holder.lock(own_name):
        for number in itertools.count(1):
            strike = Strike(number, function=ending.TURN)
            with Client(postgres_url) as client:
                with contextlib.suppress(KeyboardInterrupt), strike:
                    client.lock(own_name).acquire(timeout=0.2)
                there = client._ctx.store._port  # type: ignore[attr-defined]
                assert not there._opening.taken(), strike.where
                assert not there._ear._reading.taken(), strike.where
            if not strike.where:
                break
    assert number > ending.TURNS
