"""At a terminal: the command controls it, job control works, and the shell gets it back.

Where Ctrl-Z comes while a shell is about to start a program, that shell is bash. dash starts it by
vfork, and cannot be stopped at that moment, with or without holdfast.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Iterator

import pytest

from tests.cli.terminal import PROMPT, Terminal
from tests.cli.world import World, alive, parent, until

CTRL_C, CTRL_Z, CTRL_BACKSLASH, CTRL_D = "\x03", "\x1a", "\x1c", "\x04"

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="bash is the shell here")


@pytest.fixture
def terminal(world: World) -> Iterator[Terminal]:
    sat_at = Terminal(world.env, str(world.folder))
    yield sat_at
    sat_at.end()


def test_the_command_reads_and_writes_the_terminal(terminal: Terminal) -> None:
    terminal.enter("holdfast run job -- sh -c 'echo name?; read name; echo hello $name'")
    terminal.expect("\nname\\?\n")
    terminal.enter("world")
    terminal.expect("hello world\n")
    terminal.expect(PROMPT)
    assert terminal.status() == 0


def test_the_command_is_in_the_foreground_and_sees_a_terminal(terminal: Terminal) -> None:
    shown = terminal.do(
        "holdfast run job -- sh -c 'ps -o stat= -p $$; test -t 0 -a -t 1 && echo tty'"
    )
    assert "+" in shown
    assert "tty" in shown


def test_ctrl_c_reaches_the_command_and_the_prompt_comes_back(
    terminal: Terminal, world: World
) -> None:
    terminal.enter("holdfast run job -- sh -c 'echo go; exec sleep 60'")
    terminal.expect("\ngo\n")
    terminal.press(CTRL_C)
    terminal.expect(PROMPT)
    assert terminal.status() == 130
    assert world.claims() == []


def test_a_command_that_catches_ctrl_c_decides_itself(terminal: Terminal) -> None:
    terminal.enter("holdfast run job -- sh -c 'trap \"echo no; exit 4\" INT; echo go; read x'")
    terminal.expect("\ngo\n")
    terminal.press(CTRL_C)
    terminal.expect("no\n")
    terminal.expect(PROMPT)
    assert terminal.status() == 4


def test_ctrl_backslash_reaches_the_command(terminal: Terminal) -> None:
    terminal.enter("holdfast run job -- sh -c 'ulimit -c 0; echo go; exec sleep 60'")
    terminal.expect("\ngo\n")
    terminal.press(CTRL_BACKSLASH)
    terminal.expect(PROMPT)
    assert terminal.status() == 131


def test_ctrl_c_while_waiting_leaves_the_line(terminal: Terminal, world: World) -> None:
    world.holding()
    terminal.enter("holdfast run job -- true")
    terminal.expect("waiting for 'job'")
    terminal.press(CTRL_C)
    terminal.expect(PROMPT)
    assert terminal.status() == 130
    assert len(world.claims()) == 1


def test_ctrl_z_stops_the_job_and_fg_continues_it_under_the_same_hold(
    terminal: Terminal, world: World
) -> None:
    terminal.enter("holdfast run --ttl 6 job -- sh -c 'echo go; read x; echo got $x'")
    terminal.expect("\ngo\n")
    terminal.press(CTRL_Z)
    terminal.expect(r"Stopped.*\n")
    terminal.expect(PROMPT)
    time.sleep(7.0)  # longer than the ttl
    assert len(world.claims()) == 1
    terminal.enter("fg")
    terminal.expect("fg\nholdfast run.*\n")
    terminal.enter("it")
    terminal.expect("got it\n")
    terminal.expect(PROMPT)
    assert terminal.status() == 0
    assert world.claims() == []


def test_bg_continues_the_job_behind_the_prompt(terminal: Terminal, world: World) -> None:
    terminal.enter("holdfast run job -- bash -c 'echo go; sleep 3; echo over; sleep 60'")
    terminal.expect("\ngo\n")
    terminal.press(CTRL_Z)
    terminal.expect(r"Stopped.*\n")
    terminal.do("bg")
    terminal.expect("over\n")
    assert terminal.do("echo typed at the prompt") == "typed at the prompt\n"
    terminal.do("kill %1")
    until(lambda: not world.claims(), "the lock is free")


def test_started_in_the_background_it_stops_when_it_reads_and_fg_gives_it_the_terminal(
    terminal: Terminal,
) -> None:
    terminal.do("holdfast run job -- sh -c 'read x; echo got $x' &")
    until(lambda: "Stopped" in terminal.do("jobs"), "it is stopped")
    terminal.enter("fg")
    terminal.expect("fg\nholdfast run.*\n")
    terminal.enter("it")
    terminal.expect("got it\n")
    terminal.expect(PROMPT)


def test_ctrl_z_while_waiting_stops_and_fg_waits_on(terminal: Terminal, world: World) -> None:
    running = world.holding()
    terminal.enter("holdfast run job -- echo mine")
    terminal.expect("waiting for 'job'")
    terminal.press(CTRL_Z)
    terminal.expect(r"Stopped.*\n")
    terminal.expect(PROMPT)
    terminal.enter("fg")
    terminal.expect("fg\nholdfast run.*\n")
    running.signal(signal.SIGTERM)
    terminal.expect("mine\n")
    terminal.expect(PROMPT)


def test_a_pipeline_works_and_ctrl_c_ends_all_of_it(terminal: Terminal, world: World) -> None:
    assert terminal.do("holdfast run job -- seq 3 | tac") == "3\n2\n1\n"
    assert terminal.do("seq 3 | holdfast run job -- tac") == "3\n2\n1\n"
    terminal.enter("holdfast run job -- sh -c 'echo go; exec sleep 60' | cat")
    terminal.expect("\ngo\n")
    terminal.press(CTRL_C)
    terminal.expect(PROMPT)
    until(lambda: not world.claims(), "the lock is free")


def test_in_a_pipeline_the_command_gets_the_terminal_when_it_asks(terminal: Terminal) -> None:
    terminal.enter(
        "holdfast run job -- sh -c 'echo go >/dev/tty; read x </dev/tty; echo $x' | tr a b"
    )
    terminal.expect("\ngo\n")
    terminal.enter("aha")
    terminal.expect("bhb\n")
    terminal.expect(PROMPT)


def test_in_a_pipeline_the_command_gets_one_ctrl_c_for_one(terminal: Terminal) -> None:
    script = "trap 'echo INT >&2' INT; echo go >&2; sleep 2 & wait; wait; sleep 0.3"
    terminal.enter(f'holdfast run job -- bash -c "{script}" | cat')
    terminal.expect("\ngo\n")
    terminal.press(CTRL_C)
    assert len(re.findall("^INT|CINT", terminal.expect(PROMPT), re.MULTILINE)) == 1


def test_a_script_that_continues_after_run_has_the_terminal(terminal: Terminal) -> None:
    terminal.enter("bash -c 'holdfast run job -- true; echo go; read x; echo got $x'")
    terminal.expect("\ngo\n")
    terminal.enter("it")
    terminal.expect("got it\n")
    terminal.expect(PROMPT)


def test_where_no_shell_could_continue_it_ctrl_z_does_not_hang_the_command(world: World) -> None:
    command = [
        "holdfast",
        "run",
        "job",
        "--",
        "bash",
        "-c",
        "echo go; read x; echo got $x; sleep 9",
    ]
    alone = Terminal(world.env, str(world.folder), instead=command)
    try:
        alone.expect("go\n")
        alone.press(CTRL_Z)
        alone.enter("it")
        alone.expect("got it\n")
    finally:
        alone.end()


def test_ctrl_z_stops_a_whole_pipeline(terminal: Terminal) -> None:
    terminal.enter("holdfast run job -- bash -c 'echo go >&2; sleep 3; echo over' | tr a-z A-Z")
    terminal.expect("\ngo\n")
    terminal.press(CTRL_Z)
    terminal.expect(r"Stopped.*\n")
    terminal.expect(PROMPT)
    terminal.enter("fg")
    terminal.expect("OVER\n")
    terminal.expect(PROMPT)


def test_a_new_size_of_the_window_reaches_the_command(terminal: Terminal) -> None:
    script = 'trap "stty size" WINCH; echo go; while :; do sleep 0.05; done'
    terminal.enter(f"holdfast run job -- sh -c '{script}'")
    terminal.expect("\ngo\n")
    terminal.resize(33, 99)
    terminal.expect("33 99\n")
    terminal.press(CTRL_C)
    terminal.expect(PROMPT)


def test_a_shell_with_its_own_jobs_works_inside(terminal: Terminal) -> None:
    terminal.enter("PS1='inner> ' holdfast run job -- bash --norc --noprofile --noediting -i")
    terminal.expect("inner> ")
    terminal.enter("sh -c 'echo go; exec sleep 60'")
    terminal.expect("> go\n|\ngo\n")
    terminal.press(CTRL_Z)
    terminal.expect(r"Stopped.*\n")
    terminal.expect("inner> ")
    terminal.enter("kill -9 %1; disown %1; exit 5")
    terminal.expect(PROMPT)
    assert terminal.status() == 5


def test_the_terminal_is_as_before_after_a_command_that_died_in_raw_mode(
    terminal: Terminal,
) -> None:
    before = terminal.do("stty -g")
    terminal.enter("holdfast run job -- sh -c 'stty raw -echo; kill -9 $$'")
    terminal.expect(PROMPT)
    terminal.press("stty -g\n")
    assert before in terminal.expect(before)


def test_the_front_killed_at_the_terminal_leaves_a_shell_that_works(
    terminal: Terminal, world: World
) -> None:
    terminal.enter("holdfast run job -- sh -c 'echo $$ > pid.new; mv pid.new pid; read x'")
    until(world.path("pid").exists, "the command runs")
    command = int(world.path("pid").read_text())
    front = parent(command)
    os.kill(front, signal.SIGKILL)
    terminal.expect("Killed")
    terminal.expect(PROMPT)
    until(lambda: not alive(command), "the command is dead")
    assert terminal.do("echo works") == "works\n"
