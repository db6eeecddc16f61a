"""The command on a Redis: the same commands, and an exit status for each failure of the server."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator

import pytest

from holdfast import Client
from holdfast.cli.waiting import Waiting
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.cli.test_doctor import findings
from tests.cli.world import World, alive, children
from tests.servers.fixtures import NewRedis
from tests.servers.process import free_port
from tests.servers.redis_server import RedisServer

lag.watch()

CANARY = "hunter2"
#: A lease that is short enough to wait for, and survives a two-second pause of the holder process.
TTL = "6"
#: The module with the time limit for the wake-up that doctor sends as a test.
REACH = "holdfast.stores.redis.blocking.doctor.reach"


@pytest.fixture
def on_redis(world: World, redis_url: str, own_name: str) -> Iterator[World]:
    """A `World` whose store is on the shared server, under a separate prefix."""
    _use(world, f"{redis_url}?prefix={own_name}")
    yield world
    for started in world.started:
        if started.process.poll() is None:
            started.signal(signal.SIGTERM)
    for started in world.started:
        if started.process.poll() is None:
            started.end()


def _use(world: World, url: str) -> None:
    world.client.close()
    world.client = Client(url)
    world.url = world.env["HOLDFAST_URL"] = url


def test_a_held_name_is_listed_shown_and_busy(on_redis: World) -> None:
    on_redis.holding("--label", "one")
    on_redis.waiting("--label", "two")
    assert on_redis.run("ls", "--names")[1] == "job\n"
    assert re.search(
        r"^job +lock +\S+:one +.+ ago +\d{16} +1$", on_redis.run("ls")[1], re.MULTILINE
    )
    (line,) = json.loads(on_redis.run("ls", "--json")[1])
    assert line["name"] == "job"
    shown = on_redis.run("show", "job")[1]
    assert "job: lock, held, 1 claim waiting\n" in shown
    code, out, err = on_redis.run("run", "-n", "job", "--", "true")
    assert (code, out) == (75, "")
    assert ":one" in err


def test_the_command_has_its_fence_and_the_next_one_a_greater(on_redis: World) -> None:
    fences = [int(on_redis.run("run", "job", "-c", "echo $HOLDFAST_FENCE")[1]) for _ in range(3)]
    assert fences == sorted(set(fences))
    assert abs(fences[0] / 1e6 - time.time()) < 3600
    assert on_redis.run("ls") == (0, "no names are held or waited for\n", "")


def test_a_broken_holder_stops_and_the_next_one_runs(on_redis: World) -> None:
    running = on_redis.holding("--ttl", TTL)
    waiting = on_redis.waiting()
    code, out, err = on_redis.run("break", "job", "--yes")
    assert (code, err) == (0, "")
    assert "is no longer valid" in out
    assert waiting.end()[0] == 0
    assert running.end()[0] == 76


@pytest.mark.parametrize("who", ["the front", "both"])
def test_when_the_holder_is_killed_the_next_one_runs_after_the_lease(
    on_redis: World, who: str
) -> None:
    running = on_redis.holding("--ttl", TTL)
    (keeper,) = [pid for pid in children(running.pid) if pid != running.command]
    waiting = on_redis.waiting()
    begun = boottime()
    running.signal(signal.SIGKILL)
    if who == "both":
        os.kill(keeper, signal.SIGKILL)
    assert waiting.end()[0] == 0
    assert boottime() - begun < float(TTL) + 6 + lag.since(begun)


def test_several_names_are_held_by_their_tokens_until_each_is_released(
    on_redis: World,
) -> None:
    code, out, err = on_redis.run("acquire", "--all", "web", "db")
    assert (code, err, out.count("\n")) == (0, "", 2)
    code, out2, err = on_redis.run("acquire", "-n", "--all", "cache", "web")
    assert (code, out2, "'web' is busy" in err) == (75, "", True)
    assert on_redis.claims("cache") == []
    on_redis.run("break", "web", "--yes")
    code, said, err = on_redis.run("renew", "--ttl", "1h", "-", input=out)
    assert (code, said.count("\n"), "'web'" in err) == (76, 1, True)
    assert on_redis.claims("db")[0].expires_in > 3500
    assert on_redis.run("release", "-q", "-", input=out) == (76, "", "")
    assert on_redis.claims("db") == []


def test_a_server_that_is_not_there_is_69(world: World) -> None:
    url = f"redis://:{CANARY}@127.0.0.1:{free_port()}"
    world.env["HOLDFAST_URL"] = url
    for words in ("run -n job -- true", "ls", "show job", "break job --yes"):
        code, out, err = world.run(*words.split())
        assert (code, out) == (69, "")
        assert "refused" in err
        assert CANARY not in err
    code, found = findings(world)
    assert code == 1
    assert found["store"][0]["level"] == "fail"
    assert found["store"][0]["remedy"].startswith("is it running? Start it")
    assert CANARY not in json.dumps(found)


def test_a_holder_is_never_reported_as_a_store_that_grants_nothing(
    on_redis: World, capsys: pytest.CaptureFixture[str]
) -> None:
    # Given several names of which one is held, before this client has a place in its line
    options = argparse.Namespace(ttl=30.0, quiet=False)
    waiting = Waiting(on_redis.client, options, ["one", "two"])
    with Client(on_redis.url) as other, other.lock("one", ttl=60):
        waiting.tell()
        assert capsys.readouterr().err == ""
    # Then only names without a holder wait for the store
    waiting.tell()
    assert "no client holds it" in capsys.readouterr().err


def test_a_wait_for_the_store_is_reported_after_a_second(world: World, new_redis: NewRedis) -> None:
    # Given a server that is not there
    world.env["HOLDFAST_URL"] = f"redis://:{CANARY}@127.0.0.1:{free_port()}"
    code, _, err = world.run("run", "-w", "2", "job", "--", "true")
    _, first, last = err.splitlines()
    assert (code, first.startswith("holdfast: waiting for 'job': redis://127")) == (69, True)
    assert "refused" in first
    assert last.startswith("holdfast: redis://127")
    assert CANARY not in err
    # And one that started just now, and grants nothing at first
    world.env["HOLDFAST_URL"] = new_redis(known=False).url + "?grace=2"
    code, _, err = world.run("run", "job", "--", "true")
    assert code == 0
    assert re.fullmatch(
        r"holdfast: waiting for 'job': no client holds it, but redis://127\S+ grants nothing yet; "
        "`holdfast doctor` shows why\n",
        err,
    )
    # And silence on request
    world.env["HOLDFAST_URL"] = new_redis(known=False).url + "?grace=2"
    assert world.run("run", "-q", "job", "--", "true") == (0, "", "")


@pytest.mark.parametrize(
    "url, words",
    [
        ("redis://127.0.0.1:1/zero", "is no database"),
        ("redis://127.0.0.1:port", "is no host and port"),
        ("redis://127.0.0.1?prefx=x", 'did you mean "prefix"?'),
        ("rediz://127.0.0.1", 'did you mean "redis"?'),
        ("redis+unix://", "names a socket"),
    ],
)
def test_a_url_that_is_none_is_78(world: World, url: str, words: str) -> None:
    code, out, err = world.run("run", "--url", url, "job", "--", "true")
    assert (code, out) == (78, "")
    assert words in err
    assert findings(world, "--url", url)[0] == 1


@pytest.mark.parametrize("login", ["", f":{CANARY}@", f"ann:{CANARY}@"])
def test_a_password_that_is_wrong_is_78_and_never_shown(
    world: World, new_redis: NewRedis, login: str
) -> None:
    server = new_redis(password="sesame")
    url = f"redis://{login}127.0.0.1:{server.port}"
    code, out, err = world.run("run", "--url", url, "job", "--", "true")
    assert (code, out) == (78, "")
    assert "password" in err
    code, found = findings(world, "--url", url)
    assert code == 1
    assert "password" in found["store"][0]["text"]
    for text in (err, json.dumps(found)):
        assert CANARY not in text
    assert world.run("run", "--url", server.url, "job", "--", "true")[0] == 0


def test_doctor_finds_a_server_well_whose_settings_are(world: World, new_redis: NewRedis) -> None:
    server = new_redis("appendonly yes", password=CANARY)
    world.with_numbers(SLOW_S="holdfast.cli.doctor", WORST_S="holdfast.core.finding", LOST_S=REACH)
    code, out, err = world.run("doctor", "--url", server.url)
    assert (code, err) == (0, "")
    assert out.endswith("\nall is well\n")
    assert CANARY not in out
    for subject in ("server", "rights", "pokes", "persistence", "test lock", "hand-over", "in use"):
        assert re.search(rf"^ok    {subject} ", out, re.MULTILINE), subject


def test_doctor_on_a_replica_fails_and_tries_nothing(world: World, new_redis: NewRedis) -> None:
    primary = new_redis()
    replica: RedisServer = new_redis(f"replicaof 127.0.0.1 {primary.port}")
    code, found = findings(world, "--url", replica.url)
    assert code == 1
    assert found["role"][0]["level"] == "fail"
    assert "test lock" not in found


def test_a_stopped_holder_process_ends_its_command_before_the_next_grant(
    on_redis: World,
) -> None:
    running = on_redis.holding("--ttl", TTL)
    (keeper,) = [pid for pid in children(running.pid) if pid != running.command]
    os.kill(keeper, signal.SIGSTOP)
    try:
        with on_redis.client.lock("job", timeout=60):
            assert not alive(running.command), "two at once"
    finally:
        with contextlib.suppress(ProcessLookupError):  # it was ended with its command
            os.kill(keeper, signal.SIGCONT)
    code, _, err = running.end()
    assert code == 76
    assert "the holder process of 'job' hangs: stopping the command" in err


def test_a_front_that_was_stopped_for_long_finds_its_command_alive(on_redis: World) -> None:
    running = on_redis.holding("--ttl", TTL)
    running.signal(signal.SIGSTOP)
    time.sleep(float(TTL) + 1)
    running.signal(signal.SIGCONT)
    time.sleep(0.5)
    assert alive(running.command)
    running.signal(signal.SIGTERM)
    assert running.end()[0] == 143


def test_drain_on_a_new_server_reports_its_grace_period(world: World, new_redis: NewRedis) -> None:
    _use(world, new_redis(known=False).url + "?grace=60")
    world.client.queue("q").put("job")
    code, out, err = world.run("queue", "work", "q", "--drain", "--", "true")
    assert (code, out) == (0, "")
    assert re.search("0 jobs done, 1 job waits until later; .* grants nothing for .* more", err)
