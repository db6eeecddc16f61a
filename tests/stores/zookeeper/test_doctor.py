"""The findings of ``holdfast doctor`` on ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast import Client
from holdfast.cli import main
from holdfast.core.finding import Level
from tests.servers.process import free_port
from tests.servers.zookeeper import ZooKeeperServer
from tests.stores.examined import examined, one
from tests.stores.zookeeper.conftest import eventually


def test_a_single_server_works_and_is_reported_as_standalone(
    zookeeper_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = examined(zookeeper_url)
    assert found["ensemble"][0].level is Level.WARN
    assert found["writing"][0].level is not Level.FAIL
    assert {found[one][0].level for one in ("server", "nodes")} == {Level.OK}
    assert "secrecy" not in found
    # And the command prints the findings
    assert main(["doctor", "--url", zookeeper_url]) == 0
    said = capsys.readouterr().out
    for words in (
        *("standalone", "30 s", "has all rights", "test lock", "the store works"),
        "hand a hold to another process",
    ):
        assert words in said


def test_limits_of_the_session_are_reported(zookeeper_url: str) -> None:
    # Given a server that allows sessions from two ticks of 200 ms to one minute. A busy machine may
    # need several attempts to connect within 0.4 s.
    eventually(lambda: one(f"{zookeeper_url}?session=0.4", "session").level is Level.OK)
    long = one(f"{zookeeper_url}?session=90", "session")
    assert long.level is Level.FAIL
    assert "session=60" in long.text


def test_a_longer_session_than_was_asked_for_is_worth_a_look(
    new_zookeeper: Callable[..., ZooKeeperServer],
) -> None:
    server = new_zookeeper("minSessionTimeout=5000")
    finding = one(f"{server.url}?session=2", "session")
    assert finding.level is Level.WARN
    assert "session=5" in finding.remedy
    # And a hold there is valid for no longer than the requested session allows
    with Client(f"{server.url}?session=2") as client, client.lock("x") as hold:
        assert hold.ttl == 1.0
        assert hold.remaining() < 1.0


def test_a_server_that_is_not_there_fails() -> None:
    found = examined(f"zookeeper://127.0.0.1:{free_port()}?session=2")
    assert "doesn't answer" in found["server"][0].text
    assert found["session"][0].level is Level.FAIL


def test_a_login_in_the_open_and_rights_of_ones_own(zookeeper_url: str, own_name: str) -> None:
    url = zookeeper_url.replace("://", "://ann:secret@") + f"?prefix={own_name}"
    found = examined(url)
    assert found["rights"][0].level is Level.OK
    assert "password" in found["secrecy"][0].text
    assert "secret" not in str(found)
    # And another user can't use the prefix
    bob = examined(url.replace("ann:", "bob:"))
    assert "doesn't let us" in bob["session"][0].text
