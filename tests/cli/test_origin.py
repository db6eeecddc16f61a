"""The messages about the store, and the URL of the store in the command's environment."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import pytest

from holdfast.cli.origin import environment
from tests.cli.test_closed import WORDS
from tests.cli.world import holdfast
from tests.torture.scale import part

SECRET = "qzxsecret"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Variables with which the local file of an unnamed store is in a folder of the test."""
    return {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}


def test_run_without_a_named_store_warns_that_other_hosts_are_not_excluded(
    tmp_path: Path, home: dict[str, str]
) -> None:
    done = holdfast("run", "backup", "--", "true", **home)
    assert done.returncode == 0, done.stderr
    assert "excludes no process on other hosts" in done.stderr
    assert holdfast("run", "-q", "backup", "--", "true", **home).stderr == ""
    named = f"sqlite://{tmp_path}/locks.db"
    assert holdfast("run", "backup", "--", "true", HOLDFAST_URL=named).stderr == ""


def test_a_run_that_requires_a_named_store_refuses_the_local_file(
    tmp_path: Path, home: dict[str, str]
) -> None:
    words = ("run", "-q", "--require-url", "backup", "--", "touch", str(tmp_path / "ran"))
    done = holdfast(*words, **home)
    assert done.returncode == 78
    assert "no store is named" in done.stderr
    assert not list(tmp_path.iterdir())
    done = holdfast(*words, HOLDFAST_URL=f"sqlite://{tmp_path}/locks.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "ran").exists()


#: Commands that always name their store, that need a database, or that use no store.
OTHERS = {"doctor", "purge", "schema", "demo", "completion"}
#: Commands that only read, with their message about an empty store.
LOOKS = {
    "ls": "no names are held or waited for",
    "show": "job is free: no holder, no waiter",
    "queue ls": "there is no queue",
    "queue show": "there is no queue 'jobs'",
    "queue dead": "there is no queue 'jobs'",
    "guard ls": "no guard has any counts",
    "guard show": "g: it has no counts",
}
#: Commands that exclude or change something, or wait.
CHANGES = [one for one in WORDS if one not in LOOKS and one not in OTHERS]


@pytest.mark.usual(3)
@pytest.mark.parametrize("command", CHANGES)
def test_a_command_that_changes_an_unnamed_store_names_it(
    command: str, tmp_path: Path, home: dict[str, str]
) -> None:
    words, code, _ = WORDS[command]
    done = holdfast(*words, **home)
    assert done.returncode == code, done.stderr
    said = [line for line in done.stderr.splitlines() if "no store is named" in line]
    assert len(said) == 1, done.stderr
    assert f"this user's local file, sqlite://{tmp_path}" in said[0]
    assert "excludes no process on other hosts" in said[0]
    # With a named store there is no warning
    named = holdfast(*words, **home, HOLDFAST_URL=f"sqlite://{tmp_path}/locks.db")
    assert (named.returncode, "no store is named" in named.stderr) == (code, False)
    if command in ("queue put", "queue work"):
        assert "no store" not in holdfast(*words[:2], "-q", *words[2:], **home).stderr


@pytest.mark.usual(3)
@pytest.mark.parametrize("command", LOOKS)
def test_an_empty_result_names_the_file_of_an_unnamed_store(
    command: str, tmp_path: Path, home: dict[str, str]
) -> None:
    words, text = WORDS[command][0], LOOKS[command]
    done = holdfast(*words, **home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{text} in this user's local file, sqlite://{tmp_path}"), done
    named = holdfast(*words, **home, HOLDFAST_URL=f"sqlite://{tmp_path}/locks.db")
    assert named.stdout.splitlines()[0] == text
    if command.endswith("ls"):
        assert holdfast(*words, "--names", **home).stdout == ""


@pytest.mark.parametrize("shape", ["redis://:{}@{}", "redis://{1}?password={0}"])
def test_a_command_does_not_get_the_password_of_the_store(shape: str, redis_url: str) -> None:
    # A server whose user needs no password accepts any password
    url = shape.format(SECRET, redis_url.removeprefix("redis://"))
    done = holdfast("run", "-w", "5", "x", "--", "env", HOLDFAST_URL=url)
    assert SECRET not in done.stdout + done.stderr


#: URLs without a password.
OPEN = (
    "postgresql://ann@db:5432/app?sslmode=disable", "redis://u@h:1", "redis://h:1,h:2",
    "sqlite:///a@b", "postgresql://h?passfile=/x",
)  # fmt: skip
SECRETS = (
    "redis://:pw@h", "redis://u:p@w@h", "redis://h?sentinel_password=x", "mysql://h?pass%77ord=x",
    "redis://h?ssl_password=x", "zk://h?keyfile_password=x", "host=h password=x", "Pwd=x",
    "redis://u:p/w@h", "redis://u:p?w@h",
)  # fmt: skip


def test_the_environment_has_a_password_only_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL_WITHHELD", "1")
    for url in OPEN:
        monkeypatch.setenv("HOLDFAST_URL", url)
        assert environment()["HOLDFAST_URL"] == url
        assert "HOLDFAST_URL_WITHHELD" not in environment()
    for url in SECRETS:
        monkeypatch.setenv("HOLDFAST_URL", url)
        assert url not in environment().values()
    monkeypatch.setenv("HOLDFAST_PASS_URL", "1")
    assert environment()["HOLDFAST_URL"] == SECRETS[-1]


def test_a_command_from_which_the_store_was_withheld_has_no_local_one(
    home: dict[str, str], redis_url: str, own_name: str
) -> None:
    import redis

    with redis.Redis.from_url(redis_url) as server:
        server.execute_command("ACL", "SETUSER", own_name, "on", f">{SECRET}", "+@all", "~*", "&*")
    url = redis_url.replace("redis://", f"redis://{own_name}:{SECRET}@")
    inner = [sys.executable, "-m", "holdfast", "run", "-n", own_name + "-in", "--", "echo", "ran"]
    try:
        done = holdfast("run", "-w", "5", own_name, "--", *inner, **home, HOLDFAST_URL=url)
        assert done.returncode == 78
        assert "ran" not in done.stdout
        assert "withheld from the command; set HOLDFAST_PASS_URL=1" in done.stderr
        assert "no store is named, and $HOLDFAST_URL was withheld" in done.stderr
        asked = {"HOLDFAST_URL": url, "HOLDFAST_PASS_URL": "1"}
        done = holdfast("run", "-w", "5", own_name, "--", *inner, **home, **asked)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    finally:
        with redis.Redis.from_url(redis_url) as server:
            server.execute_command("ACL", "DELUSER", own_name)


DSNS = (
    f"host=127.0.0.1 user=admin password={SECRET}", f"Server=h;Password={SECRET}",
    f"password={SECRET}", SECRET,
)  # fmt: skip


def test_a_text_that_is_no_url_is_never_shown(tmp_path: Path) -> None:
    put = ["queue", "put", "--url", DSNS[1], "q", "x"]
    for text, words in zip(
        DSNS, (["ls"], put, ["run", "x", "--", "true"], ["doctor"]), strict=True
    ):
        done = holdfast(*words, HOME=str(tmp_path), HOLDFAST_URL=text)
        assert done.returncode
        assert "postgresql://user:password@host/db" in (done.stdout + done.stderr), done
        assert SECRET not in done.stdout + done.stderr
    for words in (["purge", DSNS[0], "--older-than", "1h"], ["schema", "--url", DSNS[0]]):
        done = holdfast(*words, HOME=str(tmp_path))
        assert done.returncode
        assert SECRET not in done.stdout + done.stderr


NAMED = [*DSNS[:3], f"redis://u:{SECRET}@h", f"redis://h?password={SECRET}"]


@pytest.mark.usual(8)
@pytest.mark.parametrize("command, text", part(product([*CHANGES, *LOOKS], NAMED), usual=24))
def test_a_store_in_the_place_of_a_name_is_refused_and_not_shown(
    command: str, text: str, tmp_path: Path
) -> None:
    words, usual, _ = WORDS[command]
    at = len(command.split())
    done = holdfast(
        *words[:at], text, *words[at + 1 :], HOLDFAST_URL=f"sqlite://{tmp_path}/locks.db"
    )
    # For a command without a name this is one argument too many
    assert done.returncode in (64, 65 if usual == 65 else 78), done
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["run", "acquire", "pick", "mcp", "queue put", "queue work"])
def test_a_store_that_ends_with_the_command_is_refused(command: str) -> None:
    done = holdfast(*WORDS[command][0], HOLDFAST_URL="memory://")
    assert done.returncode == 78
    assert "a store in memory ends with this command" in done.stderr


def test_a_password_in_an_argument_is_warned_of(redis_url: str, own_name: str) -> None:
    url = redis_url.replace("redis://", f"redis://:{SECRET}@")
    done = holdfast("run", "-w", "1", "--url", url, own_name, "--", "true")
    assert "shows to every user of this machine" in done.stderr
    assert SECRET not in done.stderr
