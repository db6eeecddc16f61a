"""A hold across commands: one process acquires it, another releases it, none renews it."""

from __future__ import annotations

import json
import os
import pwd
import re
import signal
import stat
import subprocess
from datetime import datetime

import pytest

from holdfast import NotAcquired
from holdfast.core import token
from holdfast.testing.faults import NoSmallDisk, SmallDisk
from tests.cli.across import Here, acquire, holder, told
from tests.cli.world import World, until
from tests.torture.scale import part


def test_a_hold_lasts_from_one_command_to_another(world: World) -> None:
    # Given a lock that was acquired by a process that has ended
    code, out, err = world.run("acquire", "job", "--as", "ann@web1")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    passed = token.read(out.strip())
    assert (passed.store, passed.claim.spec.name) == (world.client.url, "job")
    assert (holder(world).who, holder(world).fence) == ("ann@web1", passed.fence)
    # Then other commands find it busy
    code, out, err = world.run("acquire", "-n", "job")
    assert (code, out) == (75, "")
    assert "'job' is busy, held by ann@web1 (detached: no process renews it) for" in err
    assert world.run("acquire", "-qn", "-E", "9", "job") == (9, "", "")
    code, out, err = world.run("acquire", "-w", "1.5", "job")
    assert (code, out) == (75, "")
    assert [line.partition(", held by ann@web1")[0] for line in err.splitlines()] == [
        "holdfast: waiting for 'job'", "holdfast: 'job' is busy",
    ]  # fmt: skip
    assert len(world.claims()) == 1
    with pytest.raises(NotAcquired, match="no process renews it") as busy:
        world.client.lock("job", timeout=0).acquire()
    assert busy.value.holder == "ann@web1"
    # And the token releases it, once
    held = {"HOLDFAST_TOKEN": token.write(passed)}
    assert world.run("release", env=held) == (0, "", "")
    assert world.claims() == []
    code, out, err = world.run("release", env=held)
    assert (code, out) == (76, "")
    assert "has ended: released" in err
    assert world.run("release", "-q", env=held) == (76, "", "")
    assert world.run("release", "-q", "--if-held", env=held) == (0, "", "")


def test_wait_ends_when_the_name_is_free_and_leaves_no_claim(world: World) -> None:
    assert world.run("wait", "job") == (0, "", "")
    text = acquire(world, "--as", "ann@web1")
    code, out, err = world.run("wait", "-n", "job")
    assert (code, out, "'job' is busy, held by ann@web1" in err) == (75, "", True)
    assert world.run("wait", "-q", "-w", "0.2", "-E", "3", "job") == (3, "", "")
    waits = world.start("wait", "job")
    assert "waiting for 'job', held by ann@web1" in told(waits)
    assert len(world.claims()) == 1
    assert world.run("release", "-", input=text)[0] == 0
    assert waits.end()[0] == 0
    assert world.claims() == []


def test_pick_acquires_the_first_free_name_and_prints_it(world: World) -> None:
    names = ("gpu:0", "gpu:1")
    first = world.run("pick", *names, "--token-file", str(world.path("first")))
    assert first == (0, "gpu:0\n", "")
    code, out, err = world.run("pick", "--as", "me", *names)
    assert (code, err) == (0, "")
    name, text = out.splitlines()
    assert (name, token.read(text).claim.spec.name) == ("gpu:1", "gpu:1")
    assert holder(world, "gpu:1").who == "me"
    assert world.run("pick", "-n", *names) == (
        75, "", "holdfast: each of 'gpu:0', 'gpu:1' is busy\n",
    )  # fmt: skip
    waits = world.start("pick", *names)
    assert "waiting for one of 'gpu:0', 'gpu:1'" in told(waits)
    assert world.run("release", "-", input=text)[0] == 0
    code, out, _ = waits.end()
    assert (code, out.splitlines()[0]) == (0, "gpu:1")
    # And a name that looks like two lines is refused
    code, out, err = world.run("pick", "a", "b\nc")
    assert (code, out, "can't be printed on one line" in err) == (64, "", True)
    assert world.claims("a") == []


def test_its_time_is_what_was_asked_for_and_it_ends_then(world: World) -> None:
    for words, seconds in (([], 600), (["--ttl", "45m"], 2700), (["--ttl", "2h"], 7200)):
        acquire(world, *words, name=f"for {seconds}")
        assert seconds - 20 < holder(world, f"for {seconds}").expires_in <= seconds
    begun = datetime.now().astimezone()
    acquire(world, "--ttl", "2s")
    until(lambda: not world.claims(), "its time has expired")
    assert (datetime.now().astimezone() - begun).total_seconds() > 1.9


def test_ls_show_doctor_and_break_report_a_detached_hold_without_renewal(world: World) -> None:
    text = acquire(world, "--as", "ann@web1")
    assert "ann@web1 (detached: no process renews it)" in world.run("ls")[1]
    row = world.run("show", "job")[1].splitlines()[-1]
    assert re.fullmatch(r"detached +ann@web1 +.+ ago +in .+: no process renews it +\d+", row)
    (claim,) = json.loads(world.run("show", "--json", "job")[1])["claims"]
    assert (claim["owner"], claim["detached"]) == ("ann@web1", True)
    assert "1 detached: no process renews it" in world.run("doctor")[1]
    # And no listing has the secret of the token
    secret = token.read(text).claim.id
    for words in (["ls", "--json"], ["show", "job"], ["doctor"]):
        assert secret not in world.run(*words)[1]
    # After its adoption a process renews it
    hold = world.client.adopt(text)
    assert "(detached" not in world.run("ls")[1]
    assert "unless renewed" in world.run("show", "job")[1]
    # And a hold that a program detaches is shown like a hold that a command detached
    hold.detach(ttl=60)
    assert f"{world.client.owner} (detached: no process renews it)" in world.run("ls")[1]
    code, out, _ = world.run("break", "--yes", "job")
    assert code == 0
    assert f"of {world.client.owner} is no longer valid" in out
    assert "no process renewed it; the next command that uses its token reports the loss" in out


def test_a_token_goes_from_the_shell_to_python_and_back(world: World) -> None:
    hold = world.client.adopt(text := acquire(world, "--ttl", "30m"))
    assert hold.ttl == 1800
    assert hold.fence == token.read(text).fence
    # After the adoption the former token releases nothing
    code, _, err = world.run("release", "-", input=text + "\n")
    assert (code, f"adopted by {world.client.owner}" in err) == (76, True)
    hold.check()
    assert world.run("release", "-", input=hold.detach(ttl=60)) == (0, "", "")
    assert world.claims() == []


def test_json_has_all_that_a_script_may_want(world: World) -> None:
    said = json.loads(acquire(world, "--json", "--as", "me", "--ttl", "1h"))
    passed = token.read(said["token"])
    assert (said["name"], said["owner"], said["fence"]) == ("job", "me", passed.fence)
    assert said["expires_in"] == 3600
    left = datetime.fromisoformat(said["expires"]) - datetime.now().astimezone()
    assert 3500 < left.total_seconds() <= 3600
    file = str(world.path("token"))
    said = json.loads(acquire(world, "--json", "--token-file", file, name="other"))
    assert sorted(said) == ["expires", "expires_in", "fence", "name", "owner"]


def test_the_owner_is_the_user_on_this_host_with_the_shell_that_called(world: World) -> None:
    script = world.path("deploy.sh")
    script.write_text("holdfast acquire job\necho done\n")
    env = {**world.env, "USER": "ann"}
    done = subprocess.run(["sh", str(script)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert holder(world).who.startswith(f"ann@{os.uname().nodename}:")
    assert holder(world).who.endswith(":deploy.sh")
    # Where the environment doesn't name the user, the system does
    acquire(world, name="another")
    user = pwd.getpwuid(os.getuid()).pw_name
    assert holder(world, "another").who.startswith(f"{user}@{os.uname().nodename}:")


@pytest.mark.parametrize("mask", [0, 0o777])
def test_a_token_file_is_for_its_owner_alone_and_is_removed(world: World, mask: int) -> None:
    file = world.path("token")
    words = ("acquire", "job", "--token-file", str(file))
    assert world.run(*words, umask=mask) == (0, "", "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # Two commands with one file: the second acquires nothing
    code, out, err = world.run("acquire", "another", *words[2:])
    assert (code, out) == (78, "")
    assert "exists already" in err
    assert world.claims("another") == []
    assert world.run("release", "--token-file", str(file)) == (0, "", "")
    assert not file.exists()
    assert world.claims() == []


@pytest.mark.parametrize("written", [b"", b"hf2.cut"])
def test_a_file_without_a_token_is_reported_and_left_unchanged(
    world: World, written: bytes
) -> None:
    file = world.path("token")
    file.write_bytes(written)
    file.chmod(0o600)
    code, _, err = world.run("acquire", "job", "--token-file", str(file))
    assert code == 78
    assert "remove it" in err.lower()
    assert "holdfast release" not in err  # which has no token to release
    assert file.read_bytes() == written
    # And a token file is never made through a link
    target, link = world.path("target"), world.path("link")
    link.symlink_to(target)
    assert world.run("acquire", "job", "--token-file", str(link))[0] == 78
    assert not target.exists()
    assert world.claims() == []


@pytest.mark.parametrize(
    "file, code, why",
    [
        ("nowhere/token", 78, "nowhere/token' can't be created: its folder doesn't exist. Name"),
        ("x" * 300, 78, "can't be created: File name too long. Name a file in a folder"),
        ("-", 64, "argument --token-file: '-' is not a file; without --token-file the token"),
    ],
    ids=["no folder", "long", "stdout"],
)
def test_a_token_file_that_cannot_be_made_is_an_error_with_its_reason(
    here: Here, file: str, code: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here.world.path("."))
    said = here("acquire", "job", "--token-file", file)
    assert (said[:2], said[2].count("\n")) == ((code, ""), 1)
    assert why in said[2]
    assert here.world.claims() == []
    assert not here.world.path("-").exists()


def test_of_two_with_one_token_file_one_holds(world: World) -> None:
    started = [
        world.start("acquire", name, "--token-file", str(world.path("token"))) for name in "abcd"
    ]
    codes = sorted(one.end()[0] for one in started)
    assert codes == [0, 78, 78, 78]
    (line,) = world.client.inspect()
    assert token.read(world.path("token").read_text().strip()).claim.spec.name == line.name


def test_a_ttl_that_cannot_be_is_refused_before_anything_is_taken(here: Here) -> None:
    for ttl in ("0", "-1", "0.5s", "365d", "1y", "soon"):
        code, out, err = here("acquire", "job", f"--ttl={ttl}")
        assert (code, out, "--ttl" in err) == (64, "", True)
    assert here.world.claims() == []


@pytest.mark.parametrize("full", ["/dev/full", ""])
def test_a_token_that_cannot_be_written_is_no_hold(world: World, full: str) -> None:
    script = f"holdfast acquire job {'> ' + full if full else '>&-'}"
    done = subprocess.run(["sh", "-c", script], env=world.env, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (74, False)
    assert world.claims() == []


def test_a_token_file_on_a_full_disk_is_no_hold(world: World) -> None:
    try:
        with SmallDisk(1 << 16) as disk:
            disk.fill()
            file = disk.folder / "token"
            code, out, err = world.run("acquire", "job", "--token-file", str(file))
            assert not file.exists()
    except NoSmallDisk as reason:
        pytest.skip(f"no disk of one's own: {reason}")
    assert (code, out, err.count("\n")) == (74, "", 1)
    assert f"{str(file)!r} can't be written: No space left on device. Nothing is held" in err
    assert world.claims() == []


@pytest.mark.parametrize("number", part([signal.SIGTERM, signal.SIGINT, signal.SIGHUP], usual=1))
def test_a_signal_ends_the_waiting_and_leaves_the_line(world: World, number: int) -> None:
    acquire(world)
    waits = world.start("acquire", "job")
    until(lambda: len(world.claims()) == 2, "it waits in line")
    waits.signal(number)
    assert waits.end()[0] == 128 + number
    assert len(world.claims()) == 1


def test_the_same_permits_and_sides_as_run(world: World) -> None:
    tokens = [acquire(world, "--permits", "2", name="gpu") for _ in range(2)]
    assert world.run("run", "-n", "--semaphore", "2", "gpu", "--", "true")[0] == 75
    assert world.run("release", "-", input=tokens[0])[0] == 0
    assert world.run("run", "-n", "--semaphore", "2", "gpu", "--", "true")[0] == 0
    acquire(world, "--read", name="data")
    acquire(world, "-s", name="data")
    assert world.run("acquire", "-n", "--write", "data")[0] == 75


def test_a_hold_is_asked_for_with_a_short_ttl_until_its_token_is_out(world: World) -> None:
    # Given acquires that hang because no process reads their tokens
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 65536)
    except BlockingIOError:
        os.set_blocking(writer, True)
    words, names = (["job"], ["--all", "web", "db"]), ("job", "web", "db")
    started = [
        subprocess.Popen(["holdfast", "acquire", *one], env=world.env, stdout=writer)
        for one in words
    ]
    try:
        for name in names:
            until(lambda name=name: world.claims(name), f"{name} is held")
            until(lambda name=name: holder(world, name).detached, f"{name} is detached")
            assert 0 < holder(world, name).expires_in <= 6
    finally:
        for process in started:
            process.kill()
            process.wait()
        os.close(reader)
        os.close(writer)
    for name in names:
        until(lambda name=name: not world.claims(name), "its short ttl has expired", 10)
