"""When the lock is lost the command is stopped, if possible before the next grant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.cli.world import World, alive, children, until

lag.watch()

#: A lease that survives a pause of the holder process of two seconds. It is renewed every third of
#: the lease, and the command is stopped a third before its end.
TTL_S = 6


def broken(world: World, name: str = "job") -> None:
    code, out, err = world.run("break", "--yes", name)
    assert code == 0, err
    assert "broke" in out


def test_a_broken_lock_ends_the_command_and_we_say_why(world: World) -> None:
    running = world.holding("--ttl", f"{TTL_S}")
    broken(world)
    code, _, err = running.end()
    assert code == 76
    assert err == "holdfast: lost 'job': broken; stopping the command\n"
    assert not alive(running.command)


def test_a_lock_that_was_broken_is_noticed_soon_however_long_its_lease(world: World) -> None:
    running = world.holding("--ttl", "24h")
    begun = boottime()
    broken(world)
    assert running.end()[0] == 76
    assert boottime() - begun < 18 + lag.since(begun)


def test_the_command_gets_term_and_time_to_tidy_up(world: World) -> None:
    ready = world.path("ready")
    script = f"trap 'sleep 0.2; echo tidy; exit 0' TERM; touch {ready}; while :; do sleep 60; done"
    started = world.start("run", "--ttl", f"{TTL_S}", "job", "--", "sh", "-c", script)
    until(ready.exists, "the command runs")
    broken(world)
    assert started.end()[:2] == (76, "tidy\n")


def test_a_command_that_ignores_term_is_killed_with_all_it_has_started(world: World) -> None:
    pids = world.path("pids")
    script = (
        "trap '' TERM; sleep 60 & echo $! >> pids.new; echo $$ >> pids.new;"
        "mv pids.new pids; while :; do sleep 60; done"
    )
    started = world.start(
        "run", "--ttl", f"{TTL_S}", "--kill-after", "0.3", "job", "--", "sh", "-c", script
    )
    until(pids.exists, "the command runs")
    broken(world)
    assert started.end()[0] == 76
    for pid in map(int, pids.read_text().split()):
        until(lambda p=pid: not alive(p), "it is dead")


def test_a_lock_that_was_lost_as_the_command_ended_is_still_a_loss(world: World) -> None:
    ready = world.path("ready")
    script = f"touch {ready}; while [ -e {ready} ]; do sleep 0.02; done"
    started = world.start("run", "job", "--", "sh", "-c", script)
    until(ready.exists, "the command runs")
    broken(world)
    ready.unlink()
    code, _, err = started.end()
    assert code == 76
    assert err == "holdfast: lost 'job' (broken) before the command had ended\n"


def test_a_lease_that_ends_during_the_release_keeps_the_exit_status(
    world: World,
) -> None:
    stops = [
        "import os, signal",
        "from holdfast.cli.keep import Guard",
        "release = Guard._release",
        "def stop_first(guard):",
        "    os.kill(os.getpid(), signal.SIGSTOP)",
        "    return release(guard)",
        "Guard._release = stop_first",
    ]
    command = world.folder / "bin" / "holdfast"
    head, rest = command.read_text().split("\n", 1)
    command.write_text("\n".join([head, *stops, rest]))
    started = world.start("run", "--ttl", f"{TTL_S}", "job", "-c", "exit 3")
    keeper = until(lambda: [pid for pid in children(started.pid) if stopped(pid)], "it stops")[0]
    lock = world.client.lock("job")
    hold = until(lambda: lock.acquire(timeout=1), "its lease is over")
    os.kill(keeper, signal.SIGCONT)
    assert started.end() == (3, "", "")
    assert hold.release()


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


class Blocked:
    """Hold the file mutex of the store, so that the store doesn't answer."""

    def __init__(self, gate: Path) -> None:
        program = (
            "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2);"
            "print(1, flush=True); sys.stdin.read()"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(gate)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"1\n"

    def __enter__(self) -> None:
        pass

    def __exit__(self, *failure: object) -> None:
        self.process.communicate(b"")


def test_a_silent_store_ends_the_command_before_its_lease_expires(
    world: World,
) -> None:
    started = boottime()
    running = world.holding("--ttl", "9")
    with Blocked(world.folder / "locks.db.d" / "gate"):
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
    ready = world.path("ready")
    script = f"touch {ready}; while [ -e {ready} ]; do sleep 0.02; done; exit 3"
    started = world.start("run", "--ttl", f"{TTL_S}", "job", "--", "sh", "-c", script)
    until(ready.exists, "the command runs")
    with Blocked(world.folder / "locks.db.d" / "gate"):
        ready.unlink()
        code, _, err = started.end()
    assert code == 3
    assert "the command has ended, but its lock could not be released" in err


def test_a_command_that_ignores_term_is_killed_before_its_lease_expires(world: World) -> None:
    ready = world.path("ready")
    script = (
        f"trap '' TERM; echo $$ > {ready}.new; mv {ready}.new {ready}; while :; do sleep 60; done"
    )
    started = world.start("run", "--ttl", "9", "job", "--", "sh", "-c", script)
    until(ready.exists, "the command runs")
    command = int(ready.read_text())
    with Blocked(world.folder / "locks.db.d" / "gate"):
        begun = boottime()
        until(lambda: not alive(command), "the command is dead")
        assert boottime() - begun < 9 + lag.since(begun)
    assert started.end()[0] == 76


def test_a_short_silence_of_the_store_costs_nothing(world: World) -> None:
    started = world.start("run", "--ttl", f"{TTL_S}", "job", "--", "sleep", f"{TTL_S}")
    until(world.claims, "the lock is held")
    time.sleep(TTL_S / 6)
    with Blocked(world.folder / "locks.db.d" / "gate"):  # when it is to be renewed
        time.sleep(1.3)
    assert started.end()[0] == 0


def test_a_stopped_command_is_renewed_and_a_stopped_front_too(world: World) -> None:
    running = world.holding("--ttl", f"{TTL_S}")
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


def test_a_command_that_is_stopped_gets_its_term_all_the_same(world: World) -> None:
    running = world.holding("--ttl", f"{TTL_S}")
    os.kill(running.command, signal.SIGSTOP)
    broken(world)
    assert running.end()[0] == 76


def test_a_deleted_store_ends_the_command(world: World) -> None:
    running = world.holding("--ttl", f"{TTL_S}")
    for file in world.folder.glob("locks.db*"):
        if file.is_file():
            file.unlink()
    # The next client makes a new store, which grants nothing at first.
    assert world.run("run", "-nq", "job", "--", "true")[0] == 75
    code, _, err = running.end()
    assert code == 76
    assert "lost 'job'" in err
