"""`break`: ends exactly the hold that it showed, asks first, and reports what it did."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from tests.cli.terminal import PROMPT, Terminal
from tests.cli.world import World


@pytest.fixture
def terminal(world: World) -> Iterator[Terminal]:
    sat_at = Terminal(world.env, str(world.folder))
    yield sat_at
    sat_at.end()


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


def test_a_fence_that_is_gone_changes_nothing(world: World) -> None:
    world.holding()
    fence = world.claims()[0].fence
    code, out, err = world.run("break", "job", "--fence", str(fence - 1), "--yes")
    assert (code, out) == (1, "")
    assert f"has no claim with fence {fence - 1}" in err
    assert world.claims()[0].fence == fence


def test_of_several_holders_one_must_be_named(world: World) -> None:
    world.holding("-s")
    world.holding("-s")
    code, _, err = world.run("break", "job", "--yes")
    assert code == 1
    fences = [claim.fence for claim in world.claims()]
    assert all(str(fence) in err for fence in fences)
    assert world.run("break", "job", "--yes", "--fence", str(fences[0]))[0] == 0
    assert [claim.fence for claim in world.claims()] == fences[1:]


def test_break_removes_a_waiter_from_the_line(world: World) -> None:
    world.holding()
    world.waiting()
    holder, waiter = world.claims()
    assert world.run("break", "job", "--yes", "--fence", str(waiter.fence))[0] == 0
    assert world.claims()[0].fence == holder.fence


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


def test_a_free_name_is_nothing_to_break(world: World) -> None:
    code, out, err = world.run("break", "job", "--yes")
    assert (code, out, err) == (1, "", "holdfast: 'job' has no holder: there is nothing to break\n")


def test_without_a_terminal_break_needs_the_option_yes(world: World) -> None:
    world.holding()
    code, _, err = world.run("break", "job")
    assert code == 64
    assert "--yes" in err
    assert len(world.claims()) == 1


def test_a_person_is_asked_and_may_say_no(world: World, terminal: Terminal) -> None:
    world.holding()
    for answer in ("n", "", "nonsense"):
        terminal.enter("holdfast break job")
        assert "holds 'job'" in terminal.expect(r"Break it\? \[y/N\] ")
        terminal.enter(answer)
        terminal.expect("nothing was changed\n")
        terminal.expect(PROMPT)
        assert terminal.status() == 1
    terminal.enter("holdfast break job")
    terminal.expect(r"Break it\? \[y/N\] ")
    terminal.press("\x03")
    terminal.expect(PROMPT)
    assert terminal.status() == 130
    assert len(world.claims()) == 1


def test_a_user_confirms_the_break_at_the_terminal(world: World, terminal: Terminal) -> None:
    world.holding()
    terminal.enter("holdfast break job --reason 'it hangs'")
    terminal.expect(r"Break it\? \[y/N\] ")
    terminal.enter("y")
    terminal.expect("broke 'job'")
    terminal.expect(PROMPT)
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
