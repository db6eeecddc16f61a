"""`holdfast run` reports processes that its command leaves running, also daemons."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.world import World

DAEMON = """
import os, sys, time
if os.fork():
    os.wait()
    sys.exit()
os.setsid()
if pid := os.fork():
    os.write(1, str(pid).encode())
    os._exit(0)
os.closerange(0, 4096)
time.sleep(20)
"""


@pytest.mark.parametrize("how", ["sleep", "setsid", "daemon"])
def test_what_the_command_leaves_running_is_mentioned_and_has_no_lock(
    world: World, how: str
) -> None:
    # Given a command that leaves a background job, a session leader, or a daemon without open files
    script = f"{'setsid ' * (how == 'setsid')}sleep 20 >/dev/null 2>&1 & echo $!"
    command = ["--", sys.executable, "-c", DAEMON] if how == "daemon" else ["-c", script]
    code, out, err = world.run("run", "job", *command)
    try:
        # Then the process is reported, and the lock is free
        assert code == 0
        assert "left processes in the background" in err
        assert world.run("run", "-n", "job", "--", "true") == (0, "", "")
    finally:
        os.kill(int(out), signal.SIGKILL)


def test_what_has_ended_or_is_none_of_the_command_s_is_not_mentioned(world: World) -> None:
    # Given a shell that starts a background job, and then becomes `holdfast run` by exec
    script = "sleep 20 >/dev/null 2>&1 & echo $!; exec holdfast run job -- true"
    done = subprocess.run(["sh", "-c", script], env=world.env, capture_output=True, text=True)
    os.kill(int(done.stdout), signal.SIGKILL)
    assert (done.returncode, done.stderr) == (0, "")
    # And orphans that end before the command does
    assert world.run("run", "job", "-c", "(sleep 0.01 & sleep 0.01 &); sleep 1") == (0, "", "")
