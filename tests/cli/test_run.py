"""`holdfast run`: the command runs as it would without holdfast, under its lock."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.runtime.blocking import boottime
from holdfast.testing import lag
from tests.cli.world import READY, World, until

lag.watch()


ODD = os.fsdecode(b"odd\xff")
WORDS = ["-n", "--", "a b", "", "*", "$HOME", "é\n"]
BASH = {"env": {"SHELL": "/bin/bash"}}
#: What is run, and what comes of it: the exit status, the output, and a part of the errors.
RUNS: list[tuple[list[str], dict[str, Any], int, str, str]] = [
    (["--", "sh", "-c", "exit 7"], {}, 7, "", ""),
    (["--", "sh", "-c", "kill -TERM $$"], {}, 143, "", ""),
    (["--", "sh", "-c", "kill -KILL $$"], {}, 137, "", ""),
    (["--", "./plain"], {}, 126, "", "Permission denied"),
    (["--", ""], {}, 127, "", ""),
    # A script without its first line is run by sh, as shells do
    (["--", "./script", "it"], {}, 0, "from ./script with it\n", ""),
    (["--", ODD], {}, 0, "fine\n", ""),
    (["printf", "[%s]", *WORDS], {}, 0, "".join(f"[{one}]" for one in WORDS), ""),
    (["--", "sh", "-c", "cat; echo e >&2"], {"input": "in\n"}, 0, "in\n", "e\n"),
    (["-c", "echo a | tr a b"], {}, 0, "b\n", ""),
    (["-c", "echo $0"], BASH, 0, "/bin/bash\n", ""),
    # A pipe breaks as it does without holdfast
    (["-c", "yes | head -1"], BASH, 0, "y\n", ""),
]


def test_run_exits_with_the_status_of_the_command_and_has_its_output(world: World) -> None:
    world.path("plain").write_text("data")
    for name, text in (("script", "echo from $0 with $1"), (f"bin/{ODD}", "#!/bin/sh\necho fine")):
        world.path(name).write_text(text + "\n")
        world.path(name).chmod(0o755)
    for words, options, status, output, errors in RUNS:
        code, out, err = world.run("run", "job", *words, **options)
        assert (code, out) == (status, output), words
        assert errors in err if errors else status or not err, words
    assert world.run("run", "job", "--", "true") == (0, "", "")
    missing = world.run("run", "job", "--", "no-such-command")
    told = "holdfast: cannot run 'no-such-command': No such file or directory\n"
    assert missing == (127, "", told)
    assert world.claims() == []
    assert list((world.folder / "locks.db.d" / "sessions").iterdir()) == []


def test_the_command_learns_name_fence_owner_and_deadline(world: World) -> None:
    code, out, _ = world.run(
        "run", "--ttl", "20", "--label", "me", "job", "-c", "env; cat /proc/uptime"
    )
    told = dict(re.findall(r"HOLDFAST_(\w+)=(.*)", out))
    uptime = float(out.splitlines()[-1].split()[0])
    assert code == 0
    assert told["NAME"] == "job"
    assert int(told["FENCE"]) > 0
    assert re.fullmatch(rf"{re.escape(os.uname().nodename)}:\d+:me", told["OWNER"])
    assert 15 < float(told["DEADLINE"]) - uptime <= 20


def test_the_lock_is_held_while_the_command_runs_and_free_after_it(world: World) -> None:
    running = world.holding()
    (claim,) = world.claims()
    assert claim.held
    assert claim.owner.endswith(":sh")
    running.signal(signal.SIGTERM)
    assert running.end()[0] == 143
    assert world.claims() == []


def test_busy_is_75_or_what_is_wished_and_names_the_holder(world: World) -> None:
    world.holding("--label", "first")
    code, out, err = world.run("run", "-n", "job", "--", "echo", "never")
    assert (code, out) == (75, "")
    assert re.fullmatch(r"holdfast: 'job' is busy, held by \S+:first for .* \(fence \d+\)\n", err)
    assert world.run("run", "-nqE", "0", "job", "--", "echo", "never") == (0, "", "")
    # And the wait is limited by -w
    begun = boottime()
    code, out, err = world.run("run", "-w", "500ms", "job", "--", "echo", "never")
    assert (code, out, "waited 500 ms" in err) == (75, "", True)
    assert 0.5 <= boottime() - begun < 10 + lag.since(begun)


def test_a_waiting_command_prints_the_holder_after_a_second(world: World) -> None:
    running = world.holding("--label", "first")
    world.waiting()
    waiting = world.start("run", "job", "--", "true")
    assert waiting.process.stderr is not None
    said = waiting.process.stderr.readline()
    assert re.fullmatch(
        r"holdfast: waiting for 'job', held by \S+:first for .* \(fence \d+\); number 2 in line\n",
        said,
    )
    running.signal(signal.SIGTERM)
    assert waiting.end()[0] == 0


def test_a_command_that_waits_for_itself_gets_an_error_with_the_reason(world: World) -> None:
    code, _, err = world.run("run", "job", "--", "holdfast", "run", "-w", "4", "job", "--", "true")
    assert code == 75
    assert "it waits for itself" in err


def test_waiters_are_served_in_order(world: World) -> None:
    running = world.holding()
    order = world.path("order")
    waiting = []
    for number in range(3):
        before = len(world.claims())
        # With this ttl the lease that a wake-up grants, the rest of the waiter TTL, looks like a
        # late renewal.
        words = ["run", "--ttl", "12", "job", "-c", f"echo {number} >> {order}"]
        waiting.append(world.start(*words))
        until(lambda n=before: len(world.claims()) > n, "it waits in line")
    running.signal(signal.SIGTERM)
    assert [started.end()[0] for started in waiting] == [0, 0, 0]
    assert order.read_text().split() == ["0", "1", "2"]


def test_a_semaphore_limits_the_number_of_running_commands(world: World) -> None:
    first = world.holding("--semaphore", "2")
    world.holding("--semaphore", "2")
    assert world.run("run", "-nq", "--semaphore", "2", "job", "--", "true")[0] == 75
    code, _, err = world.run("run", "--semaphore", "3", "job", "--", "true")
    assert (code, "a semaphore of 2 permits" in err) == (78, True)
    first.signal(signal.SIGTERM)
    first.end()
    assert world.run("run", "-nq", "--semaphore", "2", "job", "--", "true")[0] == 0


def test_a_label_with_a_line_feed_reaches_the_command_unchanged(world: World) -> None:
    script = 'printf %s "$HOLDFAST_OWNER|$HOLDFAST_DEADLINE"'
    code, out, err = world.run("run", "--label", "a\nb", "job", "-c", script)
    assert (code, err) == (0, "")
    owner, _, deadline = out.partition("|")
    assert owner.endswith(":a\nb")
    assert float(deadline) > 0


@pytest.mark.usual(2)
@pytest.mark.parametrize("how", [[], ["-x"], ["--exclusive"], ["-e"]], ids=str)
def test_an_exclusive_run_excludes_readers_and_is_excluded_by_them(
    world: World, how: list[str]
) -> None:
    reader = world.holding("-s")
    assert world.run("run", "-n", "--shared", "job", "--", "true") == (0, "", "")
    assert world.run("run", "-nq", *how, "job", "--", "true")[0] == 75
    writer = world.waiting(*how)
    assert world.run("run", "-nq", "-s", "job", "--", "true")[0] == 75, "overtook the writer"
    reader.signal(signal.SIGTERM)
    assert writer.end()[0] == 0
    world.holding(*how)
    assert world.run("run", "-nq", "-s", "job", "--", "true")[0] == 75


def test_min_hold_keeps_the_name_taken_after_a_quick_command(world: World) -> None:
    begun = boottime()
    assert world.run("run", "--min-hold", "8", "job", "--", "true")[0] == 0
    assert boottime() - begun < 6 + lag.since(begun)
    code, _, err = world.run("run", "-n", "job", "--", "true")
    assert code == 75
    assert re.search(r"released by \S+, and kept until \d\d:\d\d:\d\d by --min-hold", err)
    assert world.run("run", "job", "--", "true")[0] == 0
    assert boottime() - begun >= 8


def test_max_hold_ends_the_command(world: World) -> None:
    begun = boottime()
    code, _, err = world.run("run", "--max-hold", "1.5", "job", "--", "sleep", "60")
    assert code == 76
    assert boottime() - begun < 15 + lag.since(begun)
    assert "--max-hold" in err


#: A command that waits for a signal, and then for the process that it has started.
CATCHER = """
import pathlib, signal, subprocess, sys
child = subprocess.Popen(["sleep", "60"])
def got(number, frame):
    print("both got it" if child.wait() == -number else child.returncode)
    sys.exit(3)
signal.signal(signal.Signals[sys.argv[1]], got)
pathlib.Path("ready").touch()
while True:
    signal.pause()
"""


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT"])
def test_a_signal_reaches_the_command_and_what_it_has_started(world: World, name: str) -> None:
    started = world.start("run", "job", "--", sys.executable, "-c", CATCHER, "SIG" + name)
    until(world.path("ready").exists, "the command runs")
    started.signal(getattr(signal, "SIG" + name))
    assert started.end() == (3, "both got it\n", "")


@pytest.mark.parametrize("name", ["USR1", "USR2"])
def test_a_signal_with_a_meaning_of_its_own_reaches_the_command_alone(
    world: World, name: str
) -> None:
    started = world.script(f"trap 'echo got' {name}; {READY}; sleep 3 && echo slept")
    started.signal(getattr(signal, "SIG" + name))
    assert started.end() == (0, "got\nslept\n", "")


def test_a_signal_to_the_owner_that_others_see_reaches_the_command_too(world: World) -> None:
    running = world.holding()
    owner = world.claims()[0].owner
    os.kill(int(owner.split(":")[1]), signal.SIGTERM)
    assert running.end()[0] == 143


def test_a_waiting_command_that_is_interrupted_leaves_the_line(world: World) -> None:
    world.holding()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        waiting = world.waiting()
        waiting.signal(number)
        assert waiting.end()[0] == 128 + number
        assert len(world.claims()) == 1


def test_a_signal_that_run_ignores_is_ignored_by_the_command(world: World) -> None:
    ignores = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    started = world.script(f"{READY}; sleep 0.5; echo survived", preexec_fn=ignores)
    started.signal(signal.SIGHUP)
    assert started.end() == (0, "survived\n", "")


def test_signals_that_our_starter_left_blocked_or_ignored_do_not_hang_us(world: World) -> None:
    def leave() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGUSR1])

    words = ["run", "job", "--", "grep", "SigBlk", "/proc/self/status"]
    code, out, err = world.run(*words, preexec_fn=leave)
    assert (code, err) == (0, "")
    blocked = int(out.split()[1], 16)
    assert blocked == sum(1 << (n - 1) for n in (signal.SIGCHLD, signal.SIGUSR1))


def test_the_command_inherits_only_two_high_descriptors(world: World) -> None:
    code, out, _ = world.run("run", "job", "--", "ls", "-l", "/proc/self/fd")
    assert code == 0
    opened = {
        int(found[1]): found[2]
        for found in re.finditer(r" (\d+) -> (.*)", out)
        if "/proc/" not in found[2]
    }
    assert sorted(opened) == [0, 1, 2, 1000, 1001]
    assert opened[1000].startswith("pipe:")
    assert Path(opened[1001]).parent == Path(f"{world.folder}/locks.db.d/sessions")


def test_descriptors_reach_the_command_and_closed_ones_stay_closed(world: World) -> None:
    seen = world.path("seen")
    script = f"holdfast run job -- sh -c 'ls /proc/$$/fd > {seen}' <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", script], env=world.env).returncode == 0
    assert {"0", "2"}.isdisjoint(seen.read_text().split())
    done = subprocess.run(
        ["bash", "-c", "holdfast run job -- sh -c 'echo out >&3' 3>&1 1>/dev/null"],
        env=world.env, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "out\n")
    script = "holdfast run job -- no-such-command <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", script], env=world.env).returncode == 127


def test_a_store_that_cannot_be_used_is_78_and_one_that_does_not_answer_69(world: World) -> None:
    for url in ("sqlite:///no/such/folder/x.db", "nonsense", "sqlit:///x", "sqlite:///x?ttl=1"):
        code, out, err = world.run("run", "--url", url, "job", "--", "echo", "never")
        assert (code, out) == (78, ""), url
        assert err.startswith("holdfast: ")
        assert err.count("\n") == 1
    world.run("run", "job", "--", "true")
    with world.blocked():
        code, out, err = world.run("run", "-n", "job", "--", "echo", "never")
        assert (code, out) == (69, "")
        assert err.startswith("holdfast: ")
