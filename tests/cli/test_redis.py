"""The command on a Redis: the same commands, and an exit status for each failure of the server."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
from collections.abc import Iterator

import pytest

from holdfast import Client
from holdfast.cli.waiting import Waiting
from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.cli.test_doctor import findings
from tests.cli.world import World, alive
from tests.servers.fixtures import NewRedis
from tests.servers.process import free_port

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


@pytest.mark.parametrize("who", ["the front", "both"])
def test_when_the_holder_is_killed_the_next_one_runs_after_the_lease(
    on_redis: World, who: str
) -> None:
    running = on_redis.holding("--ttl", TTL)
    keeper, waiting = running.keeper, on_redis.waiting()
    begun = boottime()
    running.signal(signal.SIGKILL)
    if who == "both":
        os.kill(keeper, signal.SIGKILL)
    assert waiting.end()[0] == 0
    assert boottime() - begun < float(TTL) + 6 + lag.since(begun)


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


def test_doctor_finds_a_server_well_whose_settings_are(world: World, new_redis: NewRedis) -> None:
    server = new_redis("appendonly yes", password=CANARY)
    world.with_numbers(SLOW_S="holdfast.cli.doctor", WORST_S="holdfast.core.finding", LOST_S=REACH)
    code, out, err = world.run("doctor", "--url", server.url)
    assert (code, err) == (0, "")
    assert out.endswith("\nall is well\n")
    assert CANARY not in out
    checks = "server", "rights", "wake-ups", "persistence", "test lock", "hand-off", "in use"
    for subject in checks:
        assert re.search(rf"^ok    {subject} ", out, re.MULTILINE), subject


def test_a_stopped_holder_process_ends_its_command_before_the_next_grant(
    on_redis: World,
) -> None:
    running = on_redis.holding("--ttl", TTL)
    keeper = running.keeper
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


def test_drain_on_a_new_server_reports_its_grace_period(world: World, new_redis: NewRedis) -> None:
    _use(world, new_redis(known=False).url + "?grace=60")
    world.client.queue("q").put("job")
    code, out, err = world.run("queue", "work", "q", "--drain", "--", "true")
    assert (code, out) == (0, "")
    assert re.search("0 jobs done, 1 job waits until later; .* grants nothing for .* more", err)
