"""A wrong command line gives one line that helps, and exit status 64."""

from __future__ import annotations

import pytest

from holdfast import cli
from tests.cli.conftest import Say
from tests.cli.world import World, holdfast

WRONG = {
    "sho job": "there is no command 'sho'; did you mean \"show\"? (see holdfast --help)",
    "ls --jsn": 'there is no option --jsn; did you mean "--json"? (see holdfast ls --help)',
    "run --tll=3 x -- y": 'there is no option --tll; did you mean "--ttl"?',
    "show": "the following arguments are required: NAME",
    "show a b": "'b' is one argument too many",
    "run": "the following arguments are required: NAME",
    "run -- rm -v victim": "give a name before -- (see holdfast run --help)",
    "run -n --": "give a name before --",
    "queue work -- q rm": "give a name before -- (see holdfast queue work --help)",
    "show -- x y": "'y' is one argument too many",
    "show x -- --json": "--json is an option, and options come before --",
    "acquire x -- --ttl 5s": "--ttl is an option, and options come before --",
    "pick x -- --ttl 5s": "--ttl is an option, and options come before --",
    "run x": "give either a command after the name, or -c STRING",
    "run x -c y -- z": "give either a command after the name, or -c STRING",
    "run -n -w 3 x -- y": "not allowed with argument",
    "run -s --semaphore 3 x -- y": "not allowed with argument",
    "run -s --min-hold 3 x -- y": "--min-hold works only with a plain lock",
    "run -w 3q x -- y": "'3q' is not a duration; write 90, 1.5s, 250ms, 10m, 2h or 1d",
    "run -w -3 x -- y": "argument -w",
    "run --ttl -1.5h x -- y": "argument --ttl: '-1.5h' is not a duration; write 90, 1.5s",
    "acquire x --ttl -5s": "argument --ttl: '-5s' is not a duration; write 90, 1.5s, 250ms, 10m",
    "run --ttl 25h x -- y": "25h is not between 10 ms and 1 d",
    "run --ttl nan x -- y": "'nan' is not a duration",
    "run -E 256 x -- y": "'256' is not an exit status from 0 to 255",
    "run --semaphore 0 x -- y": "'0' is not a whole number from 1",
    "break x --fence one": "'one' is not a whole number from 1",
    "schema oracle": "argument postgres|mysql: invalid choice",
    "demo refunds": "`refunds` is in a clone of the project: ./dev demo refunds",
    "completion ksh": "invalid choice: 'ksh'",
    "--url sqlite:// ls": "--url comes after the command: holdfast COMMAND --url URL",
    "--url=sqlite:// ls": "--url comes after the command: holdfast COMMAND --url URL",
    "queue --url sqlite:// ls": "--url comes after the command: holdfast queue VERB --url URL",
    "--json": "the following arguments are required: COMMAND",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_line_is_64_and_one_line_that_helps(line: str, say: Say) -> None:
    code, out, err = say(*line.split())
    assert (code, out) == (64, "")
    assert err.startswith("holdfast: ")
    assert err.count("\n") == 1
    assert WRONG[line] in err


def test_a_name_that_is_none_is_64(say: Say) -> None:
    for name in ("", "x" * 513, "\udcff"):
        for words in (["run", name, "--", "true"], ["show", name], ["break", name]):
            code, _, err = say(*words)
            assert (code, "name" in err) == (64, True), words


def test_help_and_version_are_for_stdout_unless_they_are_an_error(world: World) -> None:
    code, out, err = world.run()
    assert (code, out) == (64, "")
    assert err.startswith("usage: holdfast")
    code, out, err = world.run("--version")
    assert (code, err) == (0, "")
    assert out.startswith("holdfast ")
    code, out, err = world.run("run", "--help")
    assert (code, err) == (0, "")
    assert "75 busy" in out
    # Options after the command belong to the command.
    assert world.run("run", "job", "--", "printf", "%s", "--help") == (0, "--help", "")


def test_options_may_follow_the_name_and_come_in_clusters(world: World) -> None:
    assert world.run("run", "job", "-nq", "-E0", "--", "echo", "-n", "x")[1] == "x"
    assert world.run("run", "-qw", "5", "job", "echo", "-w")[1] == "-w\n"
    assert world.run("run", "--wait=5s", "--", "-job", "echo", "--", "y")[1] == "-- y\n"
    assert world.run("run", "-q", "--", "-job", "--", "echo", "y")[1] == "y\n"


def test_python_m_holdfast_is_the_same(world: World) -> None:
    words = ("run", "job", "--", "sh", "-c", "exit 9")
    assert holdfast(*words, HOLDFAST_URL=world.url).returncode == 9


def test_an_unforeseen_error_is_one_line_and_70(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise RuntimeError("planted")

    monkeypatch.setattr(cli, "_call", fail)
    assert cli.main(["ls"]) == 70
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "unexpected RuntimeError: planted" in err
    monkeypatch.setenv("HOLDFAST_TRACEBACK", "1")
    assert cli.main(["ls"]) == 70
    assert "Traceback" in capsys.readouterr().err
