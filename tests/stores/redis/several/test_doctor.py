"""`doctor` with several servers: what sentinels report, and whether a cluster is complete."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.finding import Level
from tests.servers.cluster import Cluster
from tests.servers.process import free_port, until
from tests.servers.sentinels import Watched
from tests.stores.examined import KEPT, examined, troubles


def test_sentinels_that_agree_lead_to_the_primary(new_watched: Callable[..., Watched]) -> None:
    watched = new_watched(*KEPT, replicas=1)
    found = examined(watched.url)
    (finding,) = found["sentinels"]
    assert finding.text == f"3 of 3 name 127.0.0.1:{watched.primary.port}"
    assert found["role"][0].level is Level.OK
    assert Level.FAIL not in troubles(watched.url).values()
    # When one sentinel is dead, and the URL names another that never ran
    watched.sentinels[0].kill()
    found = examined(watched.url.replace("://", f"://127.0.0.1:{free_port()},"))
    assert [each.level for each in found["sentinel"]] == [Level.WARN, Level.WARN]
    assert found["sentinels"][0].text.startswith("2 of 4")
    # And with a service name that the sentinels don't know
    assert troubles(watched.url.replace("holdfast-test", "other"))["sentinels"] is Level.FAIL


def test_sentinels_with_a_password_of_their_own_name_where_to_give_it(
    new_watched: Callable[..., Watched],
) -> None:
    watched = new_watched(*KEPT, replicas=0, sentinels=1)
    watched.sentinels[0].ask("ACL", "SETUSER", "default", "resetpass", ">theirs")
    # Given a URL without a password, and one with a wrong password
    for url in (watched.url, f"{watched.url}?sentinel_password=ours"):
        (finding,) = examined(url)["sentinel"]
        assert finding.level is Level.WARN
        assert "password@host" not in finding.text
        assert "sentinel_password=" in finding.remedy
        assert "start it" not in finding.remedy
    assert Level.FAIL not in troubles(f"{watched.url}?sentinel_password=theirs").values()
    # And with a user name that the sentinel doesn't know
    watched.sentinels[0].ask("ACL", "SETUSER", "default", "nopass")
    (finding,) = examined(f"{watched.url}?sentinel_username=nobody&sentinel_password=x")["sentinel"]
    assert "sentinel_password=" in finding.remedy


def test_a_cluster_that_is_whole_and_one_that_is_not(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(*KEPT, replicas=0)
    found = examined(cluster.url)
    assert found["cluster"][0].text.startswith("3 primaries have 16,384 of 16,384 slots")
    assert len(found["node"]) == 2
    for subject in ("wake-ups", "rights", "keys", "persistence"):
        assert [each.level for each in found[subject]] == [Level.OK], subject
    # When one node refuses to write
    last = cluster.servers[2]
    last.ask("CONFIG", "SET", "min-replicas-to-write", 1)
    (finding,) = examined(cluster.url)["writing"]
    assert finding.level is Level.FAIL
    assert finding.text.startswith(f"127.0.0.1:{last.port}: ")
    # And when that node is dead
    cluster.attend()
    last.kill()
    assert troubles(cluster.url)["node"] is Level.FAIL
    until(lambda: troubles(cluster.url).get("cluster") is Level.FAIL, "it is noticed")
