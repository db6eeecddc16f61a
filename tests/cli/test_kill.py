"""The command never outlives its lock, whichever process is killed by SIGKILL."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time

import pytest

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.cli.world import READY, World, alive, children, until

lag.watch()

#: The number of runs to kill; set HOLDFAST_TEST_KILLS=100 for the long version.
KILLS = int(os.environ.get("HOLDFAST_TEST_KILLS", "12"))
#: A script whose child is in `ready`.
CHILD = "sleep 61 & echo $! > ready.new; mv ready.new ready; wait"


@pytest.mark.parametrize("who", ["the front", "the holder process", "both"])
def test_the_command_dies_with_us_and_the_next_in_line_holds_at_once(
    world: World, who: str
) -> None:
    running = world.holding()
    keeper, waiting = running.keeper, world.waiting()
    begun = boottime()
    if who in ("the front", "both"):
        os.kill(running.pid, signal.SIGKILL)
    if who in ("the holder process", "both"):
        os.kill(keeper, signal.SIGKILL)
    assert waiting.end()[0] == 0
    # The ttl is 30 s. If the holder process dies, the command has a second to clean up.
    assert boottime() - begun < 15 + lag.since(begun)
    assert not alive(running.command)
    code, _, err = running.end()
    if who == "the holder process":
        assert code == 76
        assert "the holder process of 'job' was killed" in err


@pytest.mark.parametrize("who", ["the front", "its group"])
def test_what_the_command_has_started_dies_with_the_front(world: World, who: str) -> None:
    started = world.script(CHILD, process_group=0)
    (os.killpg if who == "its group" else os.kill)(started.pid, signal.SIGKILL)
    until(lambda: not alive(started.pids[0]), "it is dead")


def test_what_lives_on_with_the_session_keeps_the_name_taken(world: World) -> None:
    """A process in a separate session isn't in the command's group, so nothing kills it."""
    started = world.script(f"setsid sh -c '{READY}; exec sleep 62' & wait", "--ttl", "4")
    (daemon,) = started.pids
    try:
        started.signal(signal.SIGKILL)
        started.process.wait()
        time.sleep(5.0)  # longer than the ttl
        assert alive(daemon)
        assert world.run("run", "-nq", "job", "--", "true")[0] == 75
    finally:
        os.kill(daemon, signal.SIGKILL)
    assert world.run("run", "-w", "15", "job", "--", "true")[0] == 0


def test_what_lives_on_when_both_are_killed_keeps_the_name_for_the_ttl(world: World) -> None:
    started = world.script(CHILD, "--ttl", "6")
    (rest,) = started.pids
    begun = time.monotonic()
    try:
        keeper = int(world.claims()[0].owner.split(":")[1])
        os.kill(started.pid, signal.SIGSTOP)  # or it could end the command in between
        for pid in (keeper, started.pid):
            os.kill(pid, signal.SIGKILL)
        assert world.run("run", "-nq", "job", "--", "true")[0] == 75
        assert alive(rest)
        assert world.run("run", "-w", "20", "job", "--", "true")[0] == 0
        assert time.monotonic() - begun > 1
    finally:
        os.kill(rest, signal.SIGKILL)


def test_a_killed_waiting_command_leaves_the_line(world: World) -> None:
    world.holding()
    for who in ("the front", "the holder process"):
        waiting = world.waiting()
        keeper = waiting.keeper
        os.kill(waiting.pid if who == "the front" else keeper, signal.SIGKILL)
        until(lambda: len(world.claims()) == 1, "it has left")
        until(lambda k=keeper: not alive(k), "its holder process has ended")
        if who == "the holder process":
            code, _, err = waiting.end()
            assert (code, err.count("was killed while it waited")) == (137, 1)


#: Detect two running commands by flock(1): it is held while any process of the command lives.
EXCLUSIVE = """
exec 9>> {mark}
flock -n 9 || echo two >> {twice}
sleep 0.03; sleep 0.03; sleep 0.03
echo one >> {runs}
"""


@pytest.mark.skipif(not shutil.which("flock"), reason="flock(1) is the judge")
def test_however_often_we_are_killed_two_commands_never_run_at_once(world: World) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    mark, twice, runs = world.path("mark"), world.path("twice"), world.path("runs")
    script = EXCLUSIVE.format(mark=mark, twice=twice, runs=runs)
    for _ in range(KILLS):
        first, second = (world.start("run", "job", "--", "sh", "-c", script) for _ in range(2))
        time.sleep(chance.uniform(0.05, 0.35))
        victims = [first.pid, *children(first.pid)[: chance.randrange(2)]]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        first.process.communicate()
        assert second.end()[0] == 0
    assert not twice.exists(), f"two at once, {twice.read_text().count('two')} times"
    assert runs.read_text().count("one") >= KILLS
    print(f"{KILLS} killed, {runs.read_text().count('one')} commands came to their end")
