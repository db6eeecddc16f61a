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

import pytest

from tests.cli.terminal import CTRL_BACKSLASH, CTRL_C, CTRL_Z, PROMPT, Terminal
from tests.cli.world import World, alive, parent, until

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="bash is the shell here")

RUN = "holdfast run job --"


def test_the_command_reads_and_writes_the_terminal_in_the_foreground(terminal: Terminal) -> None:
    shown = terminal.do(f"{RUN} sh -c 'ps -o stat= -p $$; test -t 0 -a -t 1 && echo tty'")
    assert "+" in shown
    assert "tty" in shown
    # And a script that continues after it has the terminal again
    script = "echo go; read x; echo got $x"
    for line in (f"{RUN} sh -c '{script}'", f"bash -c '{RUN} true; {script}'"):
        terminal.go(line)
        terminal.enter("it")
        terminal.expect("got it\n")
        terminal.prompt(0)


@pytest.mark.usual(3)
@pytest.mark.parametrize(
    "key, script, status",
    [
        (CTRL_C, "echo go; exec sleep 60", 130),
        (CTRL_C, 'trap "echo no; exit 4" INT; echo go; read x', 4),
        (CTRL_BACKSLASH, "ulimit -c 0; echo go; exec sleep 60", 131),
    ],
    ids=["INT", "caught", "QUIT"],
)
def test_a_key_reaches_the_command_and_the_prompt_comes_back(
    terminal: Terminal, world: World, key: str, script: str, status: int
) -> None:
    terminal.go(f"{RUN} sh -c '{script}'")
    terminal.press(key)
    terminal.prompt(status)
    assert world.claims() == []


def test_ctrl_z_while_waiting_stops_and_ctrl_c_leaves_the_line(
    terminal: Terminal, world: World
) -> None:
    running = world.holding()
    terminal.enter(f"{RUN} true")
    terminal.expect("waiting for 'job'")
    terminal.press(CTRL_C)
    terminal.prompt(130)
    assert len(world.claims()) == 1
    terminal.enter(f"{RUN} echo mine")
    terminal.expect("waiting for 'job'")
    terminal.stop()
    terminal.fg()
    running.signal(signal.SIGTERM)
    terminal.expect("mine\n")
    terminal.prompt()


def test_ctrl_z_stops_the_job_and_fg_continues_it_under_the_same_hold(
    terminal: Terminal, world: World
) -> None:
    terminal.go("holdfast run --ttl 6 job -- sh -c 'echo go; read x; echo got $x'")
    terminal.stop()
    time.sleep(7.0)  # longer than the ttl
    assert len(world.claims()) == 1
    terminal.fg()
    terminal.enter("it")
    terminal.expect("got it\n")
    terminal.prompt(0)
    assert world.claims() == []


def test_bg_continues_the_job_behind_the_prompt(terminal: Terminal, world: World) -> None:
    terminal.go(f"{RUN} bash -c 'echo go; sleep 3; echo over; sleep 60'")
    terminal.stop()
    terminal.do("bg")
    terminal.expect("over\n")
    assert terminal.do("echo typed at the prompt") == "typed at the prompt\n"
    terminal.do("kill %1")
    until(lambda: not world.claims(), "the lock is free")


def test_started_in_the_background_it_stops_when_it_reads_and_fg_gives_it_the_terminal(
    terminal: Terminal,
) -> None:
    terminal.do(f"{RUN} sh -c 'read x; echo got $x' &")
    until(lambda: "Stopped" in terminal.do("jobs"), "it is stopped")
    terminal.fg()
    terminal.enter("it")
    terminal.expect("got it\n")
    terminal.prompt()


def test_a_pipeline_works_and_its_command_gets_one_ctrl_c_for_one(
    terminal: Terminal, world: World
) -> None:
    assert terminal.do(f"{RUN} seq 3 | tac") == "3\n2\n1\n"
    assert terminal.do(f"seq 3 | {RUN} tac") == "3\n2\n1\n"
    script = "trap 'echo INT >&2' INT; echo go >&2; sleep 2 & wait; wait; sleep 0.3"
    terminal.go(f'{RUN} bash -c "{script}" | cat')
    terminal.press(CTRL_C)
    assert len(re.findall("^INT|CINT", terminal.expect(PROMPT), re.MULTILINE)) == 1
    until(lambda: not world.claims(), "the lock is free")


def test_in_a_pipeline_the_command_gets_the_terminal_when_it_asks(terminal: Terminal) -> None:
    terminal.go(f"{RUN} sh -c 'echo go >/dev/tty; read x </dev/tty; echo $x' | tr a b")
    terminal.enter("aha")
    terminal.expect("bhb\n")
    terminal.prompt()


def test_where_no_shell_could_continue_it_ctrl_z_does_not_hang_the_command(world: World) -> None:
    script = "echo go; read x; echo got $x; sleep 9"
    alone = Terminal(world.env, str(world.folder), instead=[*RUN.split(), "bash", "-c", script])
    try:
        alone.expect("go\n")
        alone.press(CTRL_Z)
        alone.enter("it")
        alone.expect("got it\n")
    finally:
        alone.end()


def test_ctrl_z_stops_a_whole_pipeline(terminal: Terminal) -> None:
    terminal.go(f"{RUN} bash -c 'echo go >&2; sleep 3; echo over' | tr a-z A-Z")
    terminal.stop()
    terminal.enter("fg")
    terminal.expect("OVER\n")
    terminal.prompt()


def test_a_new_size_of_the_window_reaches_the_command(terminal: Terminal) -> None:
    script = 'trap "stty size" WINCH; echo go; while :; do sleep 0.05; done'
    terminal.go(f"{RUN} sh -c '{script}'")
    terminal.resize(33, 99)
    terminal.expect("33 99\n")
    terminal.press(CTRL_C)
    terminal.prompt()


def test_a_shell_with_its_own_jobs_works_inside(terminal: Terminal) -> None:
    terminal.enter(f"PS1='inner> ' {RUN} bash --norc --noprofile --noediting -i")
    terminal.expect("inner> ")
    terminal.enter("sh -c 'echo go; exec sleep 60'")
    terminal.expect("> go\n|\ngo\n")
    terminal.press(CTRL_Z)
    terminal.expect(r"Stopped.*\n")
    terminal.expect("inner> ")
    terminal.enter("kill -9 %1; disown %1; exit 5")
    terminal.prompt(5)


def test_the_terminal_is_as_before_after_a_command_that_died_in_raw_mode(
    terminal: Terminal,
) -> None:
    before = terminal.do("stty -g")
    terminal.enter(f"{RUN} sh -c 'stty raw -echo; kill -9 $$'")
    terminal.expect(PROMPT)
    terminal.press("stty -g\n")
    assert before in terminal.expect(before)


def test_the_front_killed_at_the_terminal_leaves_a_shell_that_works(
    terminal: Terminal, world: World
) -> None:
    terminal.enter(f"{RUN} sh -c 'echo $$ > pid.new; mv pid.new pid; read x'")
    until(world.path("pid").exists, "the command runs")
    command = int(world.path("pid").read_text())
    os.kill(parent(command), signal.SIGKILL)
    terminal.expect("Killed")
    terminal.expect(PROMPT)
    until(lambda: not alive(command), "the command is dead")
    assert terminal.do("echo works") == "works\n"
