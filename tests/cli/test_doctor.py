"""`doctor`: healthy parts, warnings, failures, and the remedies."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from holdfast.stores.sqlite.blocking.header import PID
from tests.cli.world import World, until


def findings(world: World, *words: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    code, out, err = world.run("doctor", "--json", *words)
    assert err == ""
    found: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(out):
        found.setdefault(finding["subject"], []).append(finding)
    return code, found


def test_a_fresh_store_is_well_and_every_part_is_spoken_of(world: World) -> None:
    world.with_numbers(SLOW_S="holdfast.cli.doctor")
    code, out, err = world.run("doctor")
    assert (code, err) == (0, "")
    assert out.endswith("\nall is well\n")
    assert not re.search("^(warn|fail)", out, re.MULTILINE)
    for subject in (
        "versions", "url", "file", "folder", "file system", "disk", "sqlite", "test lock",
        "hand-off", "in use", "crashes",
    ):  # fmt: skip
        assert re.search(rf"^ok    {subject} ", out, re.MULTILINE), subject
    # And the test lock leaves nothing behind
    assert world.run("ls", "--names") == (0, "", "")
    assert list((world.folder / "locks.db.d" / "sessions").iterdir()) == []


def test_a_store_in_use_is_well_and_its_users_are_counted(world: World) -> None:
    world.with_numbers(SLOW_S="holdfast.cli.doctor")
    world.holding(name="a")
    world.waiting(name="a")
    code, found = findings(world)
    assert code == 0
    assert {finding["level"] for list_ in found.values() for finding in list_} == {"ok"}
    assert found["in use"][0]["text"] == "1 name, 1 holder, 1 waiter"
    for subject in ("gate", "clock", "fences", "database", "sessions"):
        assert found[subject], subject


def test_doctor_reports_the_source_of_the_url(world: World) -> None:
    assert "from $HOLDFAST_URL" in findings(world)[1]["url"][0]["text"]
    assert "from --url" in findings(world, "--url", "memory://")[1]["url"][0]["text"]
    del world.env["HOLDFAST_URL"]
    assert "the default" in findings(world)[1]["url"][0]["text"]


def test_doctor_lists_missing_capabilities(world: World) -> None:
    code, found = findings(world, "--url", "memory://")
    assert code == 0
    assert any("between processes" in finding["text"] for finding in found["abilities"])
    assert world.run("doctor", "--url", "memory://")[1].endswith("things to check\n")


def test_a_folder_that_any_user_can_write_to_fails_with_the_remedy(world: World) -> None:
    world.folder.chmod(0o777)
    code, found = findings(world)
    assert code == 1
    assert found["store"][0]["level"] == "fail"
    assert "mkdir -m 700 " in found["store"][0]["text"]


def test_a_process_that_blocks_the_file_mutex_is_named(world: World) -> None:
    world.run("run", "job", "--", "true")
    named = f"f.seek({PID * 8}); f.write(os.getpid().to_bytes(8, 'little')); f.flush()"
    with world.blocked(named) as blocker:
        os.kill(blocker, signal.SIGSTOP)
        try:
            code, found = findings(world)
        finally:
            os.kill(blocker, signal.SIGCONT)
    assert code == 1
    (finding,) = found["gate"]
    assert finding["level"] == "fail"
    assert f"process {blocker}" in finding["text"]
    assert "stopped" in finding["text"]


@pytest.mark.usual(2)
@pytest.mark.parametrize("damaged", [False, True])
def test_a_file_that_is_no_database_fails_and_is_left_alone(world: World, damaged: bool) -> None:
    file = world.path("locks.db")
    file.write_bytes(b"no database at all, but long enough to look at it" * 100)
    if damaged:
        file.unlink()
        world.run("run", "job", "--", "true")
        data = bytearray(file.read_bytes())
        for page in range(1, len(data) // 1024):
            data[page * 1024 : page * 1024 + 512] = os.urandom(512)
        file.write_bytes(bytes(data))
    before = file.read_bytes()
    code, found = findings(world)
    assert code == 1
    assert found["database"][0]["level"] == "fail"
    assert damaged or file.read_bytes() == before


def test_dead_sessions_are_counted(world: World) -> None:
    """A killed client leaves its session's file to the next client."""
    program = "import holdfast; h = holdfast.lock('x').acquire(); print(1, flush=True); input()"
    python = subprocess.Popen(
        [sys.executable, "-c", program],
        env=world.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert python.stdout is not None
    python.stdout.readline()
    python.kill()
    python.communicate()
    assert "1 dead" in findings(world)[1]["sessions"][0]["text"]
    until(lambda: "dead" not in findings(world)[1]["sessions"][0]["text"], "it is cleared up")


def test_an_unusable_url_fails_as_a_finding(world: World) -> None:
    for url in ("nonsense", "sqlit:///x", "sqlite:///no/such/folder/x.db"):
        code, found = findings(world, "--url", url)
        assert code == 1
        assert [f["level"] for list_ in found.values() for f in list_].count("fail") == 1


def test_the_command_repairs_and_reports_what_is_lost(world: World) -> None:
    world.run("queue", "put", "jobs", "one")
    world.run("queue", "put", "jobs", "two")
    with closing(sqlite3.connect(f"{world.folder}/locks.db-queues", isolation_level=None)) as books:
        books.execute("DELETE FROM jobs WHERE job & 255 = 1")
    assert world.run("doctor")[0] == 1
    code, out, err = world.run("doctor", "--mend")
    assert (code, err) == (0, "")
    assert re.search("^warn  gone +job 1 of queue 'jobs'$", out, re.MULTILINE)
    assert re.search("^ok    queues +whole, .* jobs: 1$", out, re.MULTILINE)
    assert "nothing is changed" in world.run("doctor", "--mend")[1]
    # And for a store without this repair
    code, out, err = world.run("doctor", "--mend", "--url", "memory://")
    assert (code, err) == (1, "")
    assert "`--mend` is for the serial queues of sqlite://" in out
