"""Every command once: where its standard streams are closed or cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from holdfast.cli import parser
from tests.cli.world import ROOT
from tests.tidy.test_commands import commands
from tests.torture.scale import part

#: Each command, with its exit statuses on an empty store: usual, and without stdout. The renewals
#: of a hold and the like have a text that isn't a token, which cannot be read (65).
WORDS = {
    "run": (["run", "job", "--", "true"], 0, 0),
    "acquire": (["acquire", "job"], 0, 74),
    "renew": (["renew", "hf2.cut"], 65, 65),
    "check": (["check", "hf2.cut"], 65, 65),
    "release": (["release", "hf2.cut"], 65, 65),
    "wait": (["wait", "job"], 0, 0),
    "pick": (["pick", "job"], 0, 74),
    "mcp": (["mcp"], 0, 0),
    "ls": (["ls"], 0, 74),
    "show": (["show", "job"], 0, 74),
    "break": (["break", "job", "--yes"], 1, 1),
    "doctor": (["doctor"], 0, 74),
    "purge": (["purge", "--older-than", "1h"], 78, 78),
    "schema": (["schema", "postgres"], 0, 74),
    "demo": (["demo", "--help"], 0, 74),
    "completion": (["completion", "bash"], 0, 74),
    "queue put": (["queue", "put", "jobs", "one"], 0, 74),
    "queue work": (["queue", "work", "empty", "--drain", "--", "true"], 0, 0),
    "queue ls": (["queue", "ls"], 0, 74),
    "queue show": (["queue", "show", "jobs"], 0, 74),
    "queue dead": (["queue", "dead", "jobs"], 0, 74),
    "queue retry": (["queue", "retry", "empty", "--all"], 1, 74),
    "queue purge": (["queue", "purge", "empty", "--yes"], 1, 74),
    "guard ls": (["guard", "ls"], 0, 74),
    "guard show": (["guard", "show", "g"], 0, 74),
    "guard invalidate": (["guard", "invalidate", "empty"], 1, 74),
}


def holdfast(folder: Path, words: list[str], redirections: str) -> tuple[int, str]:
    """Run the command with these shell redirections; return the exit status and its stderr."""
    (folder / "errors").touch()
    script = f'exec "$@" < /dev/null > {folder}/out 2> {folder}/errors {redirections}'
    words = ["sh", "-c", script, "-", sys.executable, "-m", "holdfast", *words]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}/src", "HOLDFAST_URL": f"sqlite://{folder}/l.db"}
    done = subprocess.run(words, env=env, timeout=60)
    return done.returncode, (folder / "errors").read_text()


CLOSED = ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "> /dev/full"]


def test_every_command_is_run_with_closed_streams() -> None:
    assert {name.removeprefix("holdfast ") for name, _ in commands(parser())} == set(WORDS)


@pytest.mark.usual(12)
@pytest.mark.parametrize("command, closed", part(product(WORDS, CLOSED), usual=34))
def test_a_closed_stream_is_no_fault_of_holdfast(tmp_path: Path, command: str, closed: str) -> None:
    words, usual, mute = WORDS[command]
    code, said = holdfast(tmp_path, words, closed)
    assert code == (mute if ">&-" in closed.split() or "full" in closed else usual), said
    assert "unexpected" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize("full", [">&-", "> /dev/full"])
@pytest.mark.parametrize("words", [["--version"], ["--help"], ["ls", "--help"], ["demo"]], ids=str)
def test_unwritable_output_has_a_separate_exit_status(
    tmp_path: Path, words: list[str], full: str
) -> None:
    assert holdfast(tmp_path, words, full)[0] == 74


def test_jobs_from_a_closed_stdin_are_data_that_cannot_be_read(tmp_path: Path) -> None:
    code, said = holdfast(tmp_path, ["queue", "put", "jobs"], "<&-")
    assert (code, "stdin can't be read" in said) == (65, True), said
