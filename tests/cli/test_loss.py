"""A lost lock stops the command, if possible before the next grant."""

from __future__ import annotations

import os
import signal
import time

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.cli.world import READY, World, alive, children, stat, until

lag.watch()

#: A lease that survives a pause of the holder process of two seconds. It is renewed every third of
#: the lease, and the command is stopped a third before its end.
TTL_S = 6
TTL = ("--ttl", f"{TTL_S}")
#: A script that runs until its mark is removed.
MARKED = f"{READY}; while [ -e ready ]; do sleep 0.02; done; exit 3"
DEAF = "trap '' TERM; sleep 60 & echo $! > other; echo $$ > ready.new; cat other >> ready.new;"
DEAF += "mv ready.new ready; while :; do sleep 60; done"


def broken(world: World) -> None:
    code, out, err = world.run("break", "--yes", "job")
    assert code == 0, err
    assert "broke" in out


def test_a_broken_lock_ends_the_command_and_we_say_why(world: World) -> None:
    running = world.holding(*TTL)
    os.kill(running.command, signal.SIGSTOP)  # a command that is stopped gets its TERM all the same
    broken(world)
    assert running.end() == (76, "", "holdfast: lost 'job': broken; stopping the command\n")
    assert not alive(running.command)


def test_a_lock_that_was_broken_is_noticed_soon_however_long_its_lease(world: World) -> None:
    running = world.holding("--ttl", "24h")
    begun = boottime()
    broken(world)
    assert running.end()[0] == 76
    assert boottime() - begun < 18 + lag.since(begun)


def test_the_command_gets_term_and_time_to_tidy_up(world: World) -> None:
    script = f"trap 'sleep 0.2; echo tidy; exit 0' TERM; {READY}; while :; do sleep 60; done"
    started = world.script(script, *TTL)
    broken(world)
    assert started.end()[:2] == (76, "tidy\n")


def test_a_command_that_ignores_term_is_killed_with_all_it_has_started(world: World) -> None:
    started = world.script(DEAF, *TTL, "--kill-after", "0.3")
    broken(world)
    assert started.end()[0] == 76
    for pid in started.pids:
        until(lambda p=pid: not alive(p), "it is dead")


def test_a_lock_that_was_lost_as_the_command_ended_is_still_a_loss(world: World) -> None:
    started = world.script(MARKED)
    broken(world)
    world.path("ready").unlink()
    told = "holdfast: lost 'job' (broken) before the command had ended\n"
    assert started.end() == (76, "", told)


def test_a_lease_that_ends_during_the_release_keeps_the_exit_status(world: World) -> None:
    stops = [
        "import os, signal",
        "from holdfast.cli.keep import HolderProcess",
        "release = HolderProcess._release",
        "def stop_first(holder):",
        "    os.kill(os.getpid(), signal.SIGSTOP)",
        "    return release(holder)",
        "HolderProcess._release = stop_first",
    ]
    command = world.folder / "bin" / "holdfast"
    head, rest = command.read_text().split("\n", 1)
    command.write_text("\n".join([head, *stops, rest]))
    started = world.start("run", *TTL, "job", "-c", "exit 3")
    stopped = lambda: [pid for pid in children(started.pid) if stat(pid)[0] == "T"]  # noqa: E731
    keeper = until(stopped, "it stops")[0]
    lock = world.client.lock("job")
    hold = until(lambda: lock.acquire(timeout=1), "its lease has expired")
    os.kill(keeper, signal.SIGCONT)
    assert started.end() == (3, "", "")
    assert hold.release()


def test_a_silent_store_ends_the_command_before_its_lease_expires(world: World) -> None:
    started = boottime()
    running = world.holding("--ttl", "9")
    with world.blocked():
        begun = boottime()
        late_before = lag.since(started)
        until(lambda: not alive(running.command), "the command is dead")
        took, late = boottime() - begun, lag.since(begun)
    # The last renewal was at most a third of the ttl ago, and TERM comes a third before the end.
    assert 1 - late_before <= took < 7.5 + late
    code, _, err = running.end()
    assert code == 76
    assert "renewing 'job' fails" in err
    assert "can't renew 'job'; stopping the command" in err


def test_a_store_that_is_silent_when_the_command_has_ended_leaves_it_its_status(
    world: World,
) -> None:
    started = world.script(MARKED, *TTL)
    with world.blocked():
        world.path("ready").unlink()
        code, _, err = started.end()
    assert code == 3
    assert "the command has ended, but its lock could not be released" in err


def test_a_command_that_ignores_term_is_killed_before_its_lease_expires(world: World) -> None:
    started = world.script(DEAF, "--ttl", "9")
    with world.blocked():
        begun = boottime()
        until(lambda: not alive(started.command), "the command is dead")
        assert boottime() - begun < 9 + lag.since(begun)
    assert started.end()[0] == 76


def test_a_short_silence_of_the_store_costs_nothing(world: World) -> None:
    started = world.start("run", *TTL, "job", "--", "sleep", f"{TTL_S}")
    until(world.claims, "the lock is held")
    time.sleep(TTL_S / 6)
    with world.blocked():  # when it is to be renewed
        time.sleep(1.3)
    assert started.end()[0] == 0


def test_a_stopped_command_is_renewed_and_a_stopped_front_too(world: World) -> None:
    running = world.holding(*TTL)
    os.kill(running.command, signal.SIGSTOP)
    running.signal(signal.SIGSTOP)
    time.sleep(TTL_S + 1)
    (claim,) = world.claims()
    assert claim.owner.endswith(":sh")
    assert alive(running.command)
    running.signal(signal.SIGCONT)
    os.kill(running.command, signal.SIGCONT)
    running.signal(signal.SIGTERM)
    assert running.end()[0] == 143


def test_a_deleted_store_ends_the_command(world: World) -> None:
    running = world.holding(*TTL)
    for file in world.folder.glob("locks.db*"):
        if file.is_file():
            file.unlink()
    # The next client makes a new store, which grants nothing at first.
    assert world.run("run", "-nq", "job", "--", "true")[0] == 75
    code, _, err = running.end()
    assert code == 76
    assert "lost 'job'" in err
