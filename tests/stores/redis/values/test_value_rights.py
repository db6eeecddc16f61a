"""The additional rights that refresh guards on Redis need, and what `doctor` reports of them."""

from __future__ import annotations

import re
import threading
import time

import pytest

from holdfast.core.finding import Level
from holdfast.stores.redis.blocking.doctor.rights import VALUES
from tests.servers.fixtures import NewRedis
from tests.servers.redis_server import old_program, program
from tests.stores.examined import one
from tests.stores.redis.conftest import MakeClient
from tests.stores.redis.test_rights import PAGE, PASSWORD, USER, rights
from tests.stores.redis.values.test_value_dangers import Source, fail


def added() -> list[str]:
    """Return the rights that the page adds for guards, as words."""
    found = re.search(
        r"<!-- rights for guards -->\n```\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found, "the page shows no rights"
    return found[1].split()


@pytest.mark.parametrize("old", [False, True], ids=["usual", "6.2"])
def test_the_rights_that_the_page_names_suffice_and_none_is_too_much(
    old: bool, new_redis: NewRedis, new_client: MakeClient
) -> None:
    users = (" ".join([*rights(), *added()]),)
    server = new_redis(users=users, server=old_program() if old else program())
    address = server.url_for(USER, PASSWORD)
    client, other = new_client(address), new_client(address)
    ours, theirs = (one.guard("g", ttl=60, lease=3.0, failure_ttl=0.05) for one in (client, other))
    inside = threading.Event()

    def slow() -> int:
        inside.set()
        time.sleep(1.4)  # by then it was prolonged
        return 1

    thread = threading.Thread(target=ours.get, args=(slow,))
    thread.start()
    inside.wait(10)
    assert theirs.get(Source()) == 1
    thread.join(20)
    with pytest.raises(LookupError):
        ours.get(fail, key="x")
    assert ours.get_many(["a", "b"], str) == {"a": "a", "b": "b"}
    assert ours.invalidate() == 1
    assert ours.inspect().version == 0
    assert ours.stats().computes == 4
    assert [one.name for one in client.guards()] == ["g"]
    assert [str(one) for one in server.ask("ACL", "LOG")] == []
    unused = {word[1:] for word in added()} - set(server.calls())
    assert not unused


def test_doctor_lists_the_missing_rights_and_recognises_the_keys(
    new_redis: NewRedis, new_client: MakeClient
) -> None:
    assert {word[1:] for word in added()} == VALUES
    server = new_redis(users=(" ".join([*rights(), "+getrange"]),))
    finding = one(server.url_for(USER, PASSWORD), "values")
    assert finding.level is Level.WARN
    assert finding.remedy.split()[-3:] == ["+hincrby", "+strlen", "+zrange"]
    guard = new_client(server.url).guard("g", ttl=60)
    guard.get(Source())
    with pytest.raises(LookupError):
        new_client(server.url).guard("g", ttl=60, failure_ttl=60).get(fail, key="x")
    guard.stats()
    assert one(server.url, "values").level is Level.OK
    assert one(server.url, "keys").level is Level.OK
