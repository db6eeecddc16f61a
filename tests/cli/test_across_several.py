"""Several holds across commands, acquired by one command: all or none, then each by itself."""

from __future__ import annotations

import io
import json
import stat
import subprocess
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.core import token
from tests.cli.across import Here, acquire, holder, told
from tests.cli.world import World, until

NAMES = ("web", "db", "cache")


def names_of(lines: str) -> list[str]:
    """Return the names of the holds whose tokens are on these lines."""
    return [token.read(line).claim.spec.name for line in lines.splitlines()]


def free(here: Here, *names: str) -> bool:
    return not any(here.world.claims(name) for name in names)


@pytest.fixture
def file(here: Here) -> Path:
    """A token file of three holds."""
    made = here.world.path("tokens")
    assert here("acquire", "--all", *NAMES, "--token-file", str(made)) == (0, "", "")
    return made


def test_all_names_are_acquired_checked_renewed_and_released(here: Here) -> None:
    file = here.world.path("tokens")
    words = ("acquire", "--all", *NAMES, "--as", "ann@web1", "--token-file", str(file))
    assert here(*words) == (0, "", "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert names_of(file.read_text()) == [*NAMES]
    for name in NAMES:
        assert holder(here.world, name).who == "ann@web1"
        assert 580 < holder(here.world, name).expires_in <= 600
    code, out, err = here("check", "--token-file", str(file))
    assert (code, err) == (0, "")
    assert [line.split(" is held")[0] for line in out.splitlines()] == [*NAMES]
    assert here(*words)[0] == 78  # the file is there
    code, out, _ = here("renew", "--json", "--ttl", "45m", "--token-file", str(file))
    assert (code, [json.loads(line)["name"] for line in out.splitlines()]) == (0, [*NAMES])
    assert all(holder(here.world, name).expires_in > 2680 for name in NAMES)
    assert here("release", "--token-file", str(file)) == (0, "", "")
    assert free(here, *NAMES)
    assert not file.exists()


def test_the_tokens_go_by_stdout_to_the_environment_or_stdin(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = here("acquire", "--all", *NAMES)
    assert (code, err, names_of(out)) == (0, "", [*NAMES])
    monkeypatch.setenv("HOLDFAST_TOKEN", out.strip())
    assert here("check")[1].count(" is held, fence ") == 3
    monkeypatch.delenv("HOLDFAST_TOKEN")
    monkeypatch.setattr("sys.stdin", io.StringIO(out + out))  # twice is once
    assert here("release", "-") == (0, "", "")
    assert free(here, *NAMES)
    # And with --json an object per line; one name may be all of them
    for names in (NAMES, ("job",)):
        code, out, _ = here("acquire", "--all", "--json", *names)
        said = [json.loads(line) for line in out.splitlines()]
        assert (code, [one["name"] for one in said]) == (0, [*names])
        fences = [one["fence"] for one in said]
        assert [token.read(one["token"]).fence for one in said] == fences


def test_several_names_are_never_taken_by_mistake(here: Here) -> None:
    code, out, err = here("acquire", "web", "db")
    assert (code, out, err.count("\n")) == (64, "", 1)
    assert "add --all" in err
    assert "holdfast pick" in err
    code, out, err = here("acquire", "--all", "web", "db", "web")
    assert (code, out, "'web' is named twice" in err) == (64, "", True)
    for words in (["--all", *NAMES], ["web"]):
        code, out, err = here("acquire", *words, "--url", "zookeeper://127.0.0.1:1")
        assert (code, out, "belongs to the process that took it" in err) == (78, "", True)
        assert "holdfast run" in err
    assert free(here, *NAMES)


def test_none_is_taken_if_one_is_busy_which_is_named(world: World) -> None:
    text = acquire(world, "--as", "ann@web1", name="db")
    code, out, err = world.run("acquire", "-n", "--all", *NAMES)
    assert (code, out) == (75, "")
    assert "'db' is busy, held by ann@web1" in err
    assert world.run("acquire", "-qn", "-E", "9", "--all", *NAMES) == (9, "", "")
    assert world.claims("web") == world.claims("cache") == []
    # A waiting command prints the holder, and then gets none of the names, or all
    some, rest = world.start("acquire", "-w", "1.5", "--all", *NAMES), ("waits", "db", "cache")
    assert "waiting for 'db', held by ann@web1" in told(some)
    waits = world.start("acquire", "--all", *rest)
    code, out, err = some.end()
    assert (code, out) == (75, "")
    assert "'db' is busy, held by ann@web1" in err
    assert "waited 1.5 s" in err
    assert world.run("release", "-", input=text)[0] == 0
    code, out, _ = waits.end()
    assert (code, names_of(out)) == (0, [*rest])
    assert world.claims("web") == []


def test_what_is_held_of_each_name_is_what_was_asked_for(here: Here) -> None:
    for _ in range(2):
        assert here("acquire", "--all", "--read", "web", "db")[0] == 0
        assert here("acquire", "--all", "--permits", "2", "gpu", "port")[0] == 0
    assert here("acquire", "-nq", "--all", "--permits", "2", "fpga", "gpu")[0] == 75
    # A name that others share, and a name in use as a plain lock, are both reported as busy
    shared = here("acquire", "--read", "shared")[1]
    here.held("plain")
    for words in (["plain", "shared"], ["a", "shared"], ["a", "plain"], ["-x", "plain", "web"]):
        assert here("acquire", "-nq", "--all", *words)[0] == 75, words
    assert free(here, "a", "fpga")
    with Client(here.world.url) as client:
        client.adopt(shared.strip()).release()
    plain = here.world.client.lock("other").acquire()
    assert here("acquire", "-w", "0.1", "-q", "--all", "other", "web")[0] == 75
    plain.release()
    assert here("acquire", "-n", "--all", "other", "shared")[0] == 0


@pytest.mark.parametrize("command", ["renew", "check", "release", "release --if-held"])
@pytest.mark.parametrize("over", NAMES)
def test_a_lost_hold_hides_none_of_the_others(
    here: Here, file: Path, over: str, command: str
) -> None:
    here.world.client.break_(over, holder(here.world, over).fence)
    rest = [name for name in NAMES if name != over]
    lengthen = ["--ttl", "1h"] if command == "renew" else []
    code, out, err = here(*command.split(), *lengthen, "--token-file", str(file))
    assert code == (0 if "--if-held" in command else 76)
    assert (err.count("\n"), f"hold on {over!r}" in err, "has ended: broken" in err) == (1, 1, 1)
    if command.startswith("release"):
        assert free(here, *NAMES)
        assert not file.exists()
    else:
        assert [line.split(" is held")[0] for line in out.splitlines()] == rest
        assert all((holder(here.world, n).expires_in > 3500) == bool(lengthen) for n in rest)


def test_one_of_another_store_hides_none_of_the_others(here: Here, file: Path) -> None:
    with Client(f"sqlite://{here.world.path('other.db')}") as other:
        file.write_text(f"{other.lock('job').acquire().detach(ttl=60)}\n{file.read_text()}")
        code, out, err = here("release", "--token-file", str(file))
        assert (code, out, err.count("\n")) == (78, "", 1)
        assert "its token is of" in err
        assert free(here, *NAMES)
        assert file.exists()  # as the hold of one is not over
        assert other.lock("job").locked()


@pytest.mark.parametrize("command", ["renew", "check", "release"])
def test_nothing_is_done_if_one_of_them_is_no_token(here: Here, file: Path, command: str) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1][:-5], lines[2]]))
    code, out, err = here(command, "--token-file", str(file))
    assert (code, out, err.count("\n")) == (65, "", 1)
    assert "token 2 of 3: this token was cut" in err
    assert all(holder(here.world, name) for name in NAMES)


def test_a_file_that_is_too_long_is_no_list_of_tokens(here: Here, file: Path) -> None:
    with open(file, "a") as more:
        more.write("\n" * (1 << 24))
    code, _, err = here("release", "--token-file", str(file))
    assert (code, "too long" in err) == (65, True)
    assert all(holder(here.world, name) for name in NAMES)


def test_tokens_that_cannot_be_written_are_no_holds(world: World) -> None:
    script = "holdfast acquire --all web db > /dev/full"
    done = subprocess.run(["sh", "-c", script], env=world.env, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (74, False)
    assert world.claims("web") == world.claims("db") == []


def test_all_names_are_renewed_when_the_output_cannot_be_written(here: Here, file: Path) -> None:
    script = f"holdfast renew --ttl 45m --token-file {file} > /dev/full"
    env = {**here.world.env, "PYTHONUNBUFFERED": "1"}
    assert subprocess.run(["sh", "-c", script], env=env).returncode == 74
    assert all(holder(here.world, name).expires_in > 2680 for name in NAMES)


def test_each_has_its_own_end(world: World) -> None:
    one, two = world.run("acquire", "--all", "web", "db", "--ttl", "4s")[1].splitlines()
    assert world.run("renew", "-q", "--ttl", "1h", "-", input=two) == (0, "", "")
    until(lambda: not world.claims("web"), "its time has expired")
    code, out, err = world.run("check", "-", input=f"{one}\n\n{two}\n")
    assert (code, "db is held" in out, "'web' (fence" in err) == (76, True, True)
