"""`ls` and `show`: holders and waiters, readable, exact as JSON, and safe for a terminal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from datetime import datetime

from tests.cli.terminal import CTRL_C, Terminal
from tests.cli.world import BOUND_S, World, until

#: An escape sequence, a bell, a line feed, a mark for right-to-left text, and plain text.
WICKED = "a\x1b[31m\x07\n\u202eb c"
SEEN = r"a\x1b[31m\x07\n\u202eb c"


def test_an_empty_store_is_reported_in_words(world: World) -> None:
    assert world.run("ls") == (0, "no names are held or waited for\n", "")
    assert world.run("ls", "x") == (0, "no names that begin with x are held or waited for\n", "")
    assert world.run("ls", "--json") == (0, "[]\n", "")
    assert world.run("ls", "--names") == (0, "", "")
    assert world.run("show", "x") == (0, "x is free: no holder, no waiter\n", "")


def test_ls_has_a_row_for_each_name_and_with_all_for_each_claim(world: World) -> None:
    world.holding("--label", "one", name="a:first")
    world.waiting("--label", "two", name="a:first")
    world.holding("--semaphore", "3", "--label", "three", name="b")
    _, out, _ = world.run("ls")
    head, first, second = out.splitlines()
    assert head.split() == ["NAME", "KIND", "HOLDER", "SINCE", "FENCE", "WAITING"]
    assert re.fullmatch(r"a:first +lock +\S+:one +.+ ago +\d+ +1", first)
    assert re.fullmatch(r"b +semaphore 1/3 +\S+:three +.+ ago +\d+ +0", second)
    assert world.run("ls", "a:")[1].count("\n") == 2
    every = world.run("ls", "--all")[1].splitlines()
    assert [re.split(r" {2,}", row)[2] for row in every[1:]] == ["holds", "waits, 1.", "holds"]
    assert world.run("ls", "--names")[1] == "a:first\nb\n"


def test_show_prints_the_whole_line(world: World) -> None:
    world.holding("--label", "one")
    world.waiting("--label", "two")
    world.waiting("--label", "three")
    head, blank, names, *rows = world.run("show", "job")[1].splitlines()
    assert head == "job: lock, held, 2 claims waiting"
    assert (blank, names.split()) == ("", ["PLACE", "OWNER", "SINCE", "EXPIRES", "FENCE"])
    # Without "unless renewed" a reader would expect the lock to be free soon
    places = (r"holds +\S+:one", r"waits, 1\. +\S+:two", r"waits, 2\. +\S+:three")
    for row, what in zip(rows, places, strict=True):
        assert re.fullmatch(what + r" +.+ ago +in .+ unless renewed +\d+", row)


def test_ls_prints_the_end_of_min_hold_after_the_job(world: World) -> None:
    begun = datetime.now().astimezone()
    assert world.run("run", "--min-hold", "1h", "--label", "hourly", "job", "--", "true")[0] == 0
    row = world.run("ls")[1].splitlines()[1]
    found = re.fullmatch(
        r"job +lock +\S+:hourly \(released, kept until ([\d:]{8})\) +.+ ago +\d+ +0", row
    )
    assert found, row
    assert abs(_seconds(found[1]) - (_seconds(f"{begun:%H:%M:%S}") + 3600) % 86_400) < BOUND_S
    head, _, _, story = world.run("show", "job")[1].splitlines()
    assert re.fullmatch(r"job: lock, released, but kept until [\d:]{8}", head)
    assert re.fullmatch(r"released +\S+:hourly +.+ ago +kept until [\d:]{8} +\d+", story)
    (claim,) = json.loads(world.run("show", "--json", "job")[1])["claims"]
    assert claim["kept"] is True
    # A holder that still works is not shown as kept
    world.holding(name="other")
    (claim,) = json.loads(world.run("show", "--json", "other")[1])["claims"]
    assert claim["kept"] is False


def _seconds(clock: str) -> int:
    """Return the seconds since midnight of a time of day."""
    hours, minutes, seconds = map(int, clock.split(":"))
    return hours * 3600 + minutes * 60 + seconds


def test_ls_and_show_distinguish_readers_from_writers(world: World) -> None:
    reader = world.holding("-s")
    world.holding("-s")
    world.waiting("-x")
    assert "job: rwlock, 2 readers, held, 1 claim waiting\n" in world.run("show", "job")[1]
    reader.signal(signal.SIGTERM)
    reader.end()
    assert "rwlock, 1 reader" in world.run("ls")[1]


def test_json_output_is_exact_and_complete(world: World) -> None:
    world.holding("--ttl", "20", "--label", WICKED, name=WICKED)
    (line,) = json.loads(world.run("ls", "--json")[1])
    assert (line["name"], line["kind"], line["capacity"]) == (WICKED, "lock", 1)
    (claim,) = line["claims"]
    assert claim["owner"].endswith(":" + WICKED)
    assert claim["held"] is True
    assert (claim["weight"], claim["position"], claim["meta"]) == (1, 0, "")
    assert 0 <= claim["age"] < 20
    assert 0 < claim["expires_in"] <= 20
    since = datetime.fromisoformat(claim["since"])
    assert abs((datetime.now().astimezone() - since).total_seconds() - claim["age"]) < 5
    shown = json.loads(world.run("show", "--json", WICKED)[1])
    assert shown["claims"][0]["fence"] == claim["fence"] == world.claims(WICKED)[0].fence
    free = json.loads(world.run("show", "--json", "free")[1])
    assert free == {"name": "free", "kind": None, "capacity": None, "claims": []}


def test_what_could_steer_a_terminal_is_shown_by_its_number(world: World) -> None:
    running = world.holding("--ttl", "6", "--label", WICKED, name=WICKED)
    shown = [world.run(*words) for words in (["ls"], ["ls", "--all"], ["ls", "--names"])]
    shown += [world.run("show", WICKED), world.run("show", "free" + WICKED)]
    shown += [world.run("run", "-n", WICKED, "--", "true"), world.run("break", WICKED)]
    shown += [world.run("doctor", "--url", "sqlite:///x" + WICKED), world.run(WICKED)]
    shown += [world.run("break", "--yes", WICKED)]
    for _, out, err in shown:
        assert SEEN in (out + err).replace("\\\\", "\\")
        assert all(c.isprintable() or c == "\n" for c in out + err), repr(out + err)
    running.end()


def test_a_pipe_that_is_closed_is_no_drama(world: World) -> None:
    for number in range(3):
        world.holding(name=f"name{number}")
    done = subprocess.run(
        ["bash", "-c", "holdfast ls --watch 0.1 | head -2; echo ${PIPESTATUS[0]}"],
        env=world.env, capture_output=True, text=True, timeout=20,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "141"
    assert done.stderr == ""


def test_colours_are_for_terminals_alone_and_not_with_no_color(
    world: World, terminal: Terminal
) -> None:
    world.holding()
    assert "\033" not in world.run("ls")[1]
    assert "\033[1mNAME" in terminal.do("holdfast ls")
    assert "\033" not in terminal.do("NO_COLOR=1 holdfast ls")
    assert "\033" not in terminal.do("TERM=dumb holdfast ls")


def test_watch_draws_again_until_ctrl_c(world: World, terminal: Terminal) -> None:
    terminal.resize(8, 60)
    terminal.enter("holdfast ls --watch 100ms")
    terminal.expect("no names are held")
    for number in range(6):
        world.holding(name=f"name{number}")
    assert "name3" in terminal.expect("and 2 more")
    screen = terminal.expect("and 2 more").rpartition("\033[H\033[J")[2]
    assert max(map(len, re.sub("\033\\[[0-9]*m", "", screen).splitlines())) <= 60
    terminal.press(CTRL_C)
    terminal.prompt(130)


def test_watch_into_a_pipe_gives_one_answer_after_the_other(world: World) -> None:
    watching = world.start("ls", "--watch", "0.1", "--json")
    assert watching.process.stdout is not None
    assert watching.process.stdout.readline() == "[]\n"
    world.holding()
    stdout = watching.process.stdout
    until(lambda: json.loads(stdout.readline()), "the name is listed")
    watching.signal(signal.SIGINT)
    assert watching.process.wait() == 130
