"""A given-up connection counts against the pool until the server has ended its session."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from holdfast import Client
from holdfast.stores.mysql.blocking.lost import Graveyard
from holdfast.stores.mysql.blocking.port import ThreadPort
from holdfast.testing.faces import FACES, Face
from holdfast.testing.faults import HOLD_END, Proxy, Strike
from tests.servers.mariadb_server import PASSWORD, USER, MariadbServer
from tests.stores import ending


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_session_that_the_server_has_not_ended_counts(
    shared_mariadb: MariadbServer,
    proxy: Proxy,
    own_name: str,
    face: Face,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = shared_mariadb.url_for(USER, PASSWORD, proxy.port) + "?pool=1"
    last = (b"", HOLD_END)
    ending.a_session_counts_until_its_end(face, proxy, url, own_name, last, monkeypatch)


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_connection_that_was_never_made_counts_until_the_server_has_ended_it(
    shared_mariadb: MariadbServer,
    proxy: Proxy,
    own_name: str,
    face: Face,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = shared_mariadb.url_for(USER, PASSWORD, proxy.port) + "?pool=1&connect_timeout=0.1"
    ending.one_that_was_never_made_counts(
        face, proxy, url, own_name, f"{USER}\0".encode(), monkeypatch
    )


@pytest.mark.parametrize("method", ending.WAY)
def test_an_interrupt_on_the_way_to_a_connection_or_back_keeps_no_place(
    mariadb_url: str, own_name: str, method: str
) -> None:
    ending.no_interrupt_keeps_a_place(
        f"{mariadb_url}?pool=1", own_name, getattr(ThreadPort, method)
    )


def test_an_interrupt_of_one_that_ends_a_stubborn_session_keeps_no_other_from_it(
    mariadb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    # Given a session that doesn't end by itself
    monkeypatch.setattr(Graveyard, "stubborn", lambda _: iter([1]))
    monkeypatch.setattr(ThreadPort, "_kill", lambda _, until: ended.append(1))
    with Client(mariadb_url) as client:
        there = client._ctx.store._port  # type: ignore[attr-defined]
        for number in itertools.count(1):
            strike = Strike(number, function=ending.TURN)
            with contextlib.suppress(KeyboardInterrupt), strike:
                there._end_the_stubborn(0.0)
            before = len(ended)
            there._end_the_stubborn(0.0)
            assert len(ended) == before + 1, strike.where
            if not strike.where:
                break
    assert number > ending.TURNS
