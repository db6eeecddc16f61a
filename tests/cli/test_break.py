"""`break`: ends exactly the hold that it showed, asks first, and reports what it did."""

from __future__ import annotations

import re
import socket

import pytest

from tests.cli.terminal import CTRL_C, Terminal
from tests.cli.world import World


def test_the_holder_is_out_the_next_is_in_and_the_fence_has_moved_on(world: World) -> None:
    running = world.holding("--ttl", "6")
    old = world.claims()[0].fence
    waiting = world.waiting()
    code, out, err = world.run("break", "job", "--yes")
    assert (code, err) == (0, "")
    told = re.match(
        r"broke 'job': fence (\d+) of (\S+:sh) is no longer valid\n"
        r"(\S+:sh) notices at its next renewal\n(.*)\n",
        out,
    )
    assert told is not None
    assert told[2] == told[3]
    assert int(told[1]) == old
    assert waiting.end()[0] == 0
    assert running.end()[0] == 76
    assert int(world.run("run", "job", "-c", "echo $HOLDFAST_FENCE")[1]) > old


def test_of_several_holders_one_must_be_named(world: World) -> None:
    world.holding("-s")
    world.holding("-s")
    world.waiting("-x")
    code, _, err = world.run("break", "job", "--yes")
    assert code == 1
    fences = [claim.fence for claim in world.claims()]
    assert all(str(fence) in err for fence in fences[:2])
    assert world.run("break", "job", "--yes", "--fence", str(fences[0]))[0] == 0
    assert [claim.fence for claim in world.claims() if claim.held] == [fences[1]]
    # And a waiter is removed from the line
    assert world.run("break", "job", "--yes", "--fence", str(fences[2]))[0] == 0
    assert fences[2] not in [claim.fence for claim in world.claims()]


def test_a_name_that_stays_occupied_after_its_job_can_be_freed(
    world: World, terminal: Terminal
) -> None:
    assert world.run("run", "--min-hold", "1h", "job", "--", "true")[0] == 0
    terminal.enter("holdfast break job")
    asked = terminal.expect(r"\[y/N\]")
    assert "has released 'job' (fence " in asked
    assert "The name stays taken until " in asked
    terminal.press("n\r")
    terminal.expect("nothing was changed")
    code, out, err = world.run("break", "job", "--yes")
    assert (code, err) == (0, "")
    assert re.match(
        r"broke 'job': fence \d+, released by \S+:true, is not kept now\nthe name is", out
    )
    assert world.claims() == []


def test_a_break_that_is_none_changes_nothing(world: World) -> None:
    told = "holdfast: 'job' has no holder: there is nothing to break\n"
    assert world.run("break", "job", "--yes") == (1, "", told)
    world.holding()
    fence = world.claims()[0].fence
    code, out, err = world.run("break", "job", "--fence", str(fence - 1), "--yes")
    assert (code, out, f"has no claim with fence {fence - 1}" in err) == (1, "", True)
    # And without a terminal it needs --yes
    code, _, err = world.run("break", "job")
    assert (code, "--yes" in err) == (64, True)
    assert world.claims()[0].fence == fence


def test_a_person_is_asked_and_may_say_no_or_yes(world: World, terminal: Terminal) -> None:
    world.holding()
    for answer in ("n", "", "nonsense"):
        terminal.enter("holdfast break job")
        assert "holds 'job'" in terminal.expect(r"Break it\? \[y/N\] ")
        terminal.enter(answer)
        terminal.expect("nothing was changed\n")
        terminal.prompt(1)
    terminal.enter("holdfast break job")
    terminal.expect(r"Break it\? \[y/N\] ")
    terminal.press(CTRL_C)
    terminal.prompt(130)
    assert len(world.claims()) == 1
    terminal.enter("holdfast break job --reason 'it hangs'")
    terminal.expect(r"Break it\? \[y/N\] ")
    terminal.enter("y")
    terminal.expect("broke 'job'")
    terminal.prompt(0)
    assert world.claims() == []


def test_the_system_log_records_the_user_the_hold_and_the_reason(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import syslog

    from holdfast.cli import main

    logged: list[str] = []
    monkeypatch.setattr(syslog, "syslog", lambda level, text: logged.append(text))
    monkeypatch.setenv("USER", "ann")
    monkeypatch.delenv("SUDO_USER", raising=False)
    world.holding()
    fence = world.claims()[0].fence
    words = ["break", "--url", world.url, "job", "--yes", "--reason", "it\nhangs"]
    assert main(words) == 0
    owner = re.escape(f"{socket.gethostname()[:63]}:")
    (text,) = logged
    assert re.fullmatch(
        rf"ann broke 'job', fence {fence} of {owner}\d+:sh, because: it\\nhangs", text
    )
    assert "broke 'job'" in capsys.readouterr().out
