"""Commands that use a hold by its token: renew, check, release; and texts that are no token."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.core import token
from tests.cli.across import Here, acquire, holder
from tests.cli.world import World, until


def test_check_answers_by_its_exit_status(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    text = here.held()
    passed = token.read(text)
    monkeypatch.setenv("HOLDFAST_TOKEN", text)
    code, out, err = here("check")
    assert (code, err) == (0, "")
    assert re.fullmatch(
        rf"job is held, fence {passed.fence}: 9 m \d+ s left\n|.*: 10 m left\n", out
    )
    assert here("check", "-q") == (0, "", "")
    said = json.loads(here("check", "--json")[1])
    assert (said["name"], said["fence"]) == ("job", passed.fence)
    # Only the store has the state of the hold: check asks it and changes nothing
    left = holder(here.world).expires_in
    assert left - 5 < said["expires_in"] <= left + 1
    here.world.client.break_("job", passed.fence)
    code, out, err = here("check")
    assert (code, out, "has ended: broken" in err) == (76, "", True)
    assert here("check", "-q") == (76, "", "")
    assert here.world.claims() == []


def test_check_names_the_adopter_and_reports_the_release(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", here.held())
    with Client(here.world.url, label="the other") as other:
        hold = other.adopt(os.environ["HOLDFAST_TOKEN"])
        for command in ("check", "renew", "release"):
            code, _, err = here(command)
            assert (code, "adopted" in err) == (76, True), command
        assert f"adopted by {other.owner}" in here("check")[2]
        hold.check()
        # And after another detach the former token is still worthless
        again = hold.detach(ttl=60)
        assert here("check", "-q")[0] == 76
        other.adopt(again).release()
    assert "it has expired, or its adopter has ended it" in here("check")[2]


def test_renew_lengthens_by_the_clock_of_the_store(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = here.world.client.lock("job").acquire()
    monkeypatch.setenv("HOLDFAST_TOKEN", hold.detach(ttl=60))
    assert 50 < holder(here.world).expires_in <= 60
    assert here("renew", "-q", "--ttl", "45m") == (0, "", "")
    assert 2690 < holder(here.world).expires_in <= 2700
    code, out, _ = here("check")
    assert (code, "45 m left" in out or "44 m" in out) == (0, True)
    # Without --ttl the ttl of the detach is used, and the lease never becomes shorter
    assert "44 m" in (out := here("renew")[1]) or "45 m" in out
    assert here("renew", "--ttl", "2h")[0] == 0
    assert 7190 < holder(here.world).expires_in <= 7200


def test_what_has_expired_is_not_renewed(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = here.world.client.lock("job", ttl=0.05).acquire()
    monkeypatch.setenv("HOLDFAST_TOKEN", hold.detach())
    until(lambda: not here.world.claims(), "its time is over")
    for command in ("renew", "check", "release"):
        code, out, err = here(command)
        assert (code, out) == (76, ""), command
        assert "has expired" in err
    assert here.world.claims() == []


def test_an_unreachable_store_has_a_separate_exit_status(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", here.held())
    for command in ("renew", "check", "release"):
        code, out, err = here(command, "--url", "redis://127.0.0.1:1")
        assert (code, out) == (69, ""), command
        assert err.startswith("holdfast: ")


def by_mode(path: Path) -> None:
    path.chmod(0o640)


def by_link(path: Path) -> None:
    path.rename(path.parent / "moved")
    path.symlink_to(path.parent / "moved")


def by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def by_cut(path: Path) -> None:
    path.write_text(path.read_text()[:40])


def by_absence(path: Path) -> None:
    path.unlink()


UNREADABLE = (by_link, by_folder, by_pipe, by_cut, by_absence)


@pytest.mark.parametrize("spoil, status", [(by_mode, 78), *((one, 65) for one in UNREADABLE)])
def test_a_token_file_open_to_other_users_is_refused(
    here: Here, spoil: Callable[[Path], None], status: int
) -> None:
    file = here.world.path("token")
    file.touch(0o600)
    file.write_text(here.held())
    spoil(file)
    code, out, err = here("release", "--token-file", str(file))
    assert (code, out) == (status, ""), err
    assert err.count("\n") == 1
    assert err.startswith("holdfast: ")
    assert holder(here.world)


@pytest.mark.parametrize("spoil", ["cut", "altered", "empty", "old", "none"])
def test_what_is_no_token_is_refused_in_one_line(
    here: Here, spoil: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = here.held()
    letter = "A" if text[50] != "A" else "B"
    if spoil != "none":
        bad = {
            "cut": text[:-5],
            "altered": text[:50] + letter + text[51:],
            "empty": "",
            "old": "hf1." + text[4:],
        }
        monkeypatch.setenv("HOLDFAST_TOKEN", bad[spoil])
    code, out, err = here("release")
    assert (code, out, err.count("\n")) == (65, "", 1)
    assert "holdfast acquire" in err or "--token-file" in err
    assert token.read(text).claim.id not in err
    assert holder(here.world)


def test_a_token_in_the_arguments_is_taken_with_a_warning(here: Here) -> None:
    code, out, err = here("release", here.held())
    assert (code, out) == (0, "")
    assert "`ps` shows a token in the arguments" in err
    assert here("release", "--token-file", "x", "y")[0] == 65


@pytest.mark.parametrize("words", [["-"], ["--token-file", "-"]])
def test_a_dash_is_a_line_of_stdin(
    here: Here, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here.world.path("."))
    here.world.path("-").write_text("a file that isn't meant\n")
    text = here.held()
    for command in ("check", "renew", "release"):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{text}\n"))
        assert here(command, "-q", *words) == (0, "", ""), command
    assert here.world.claims() == []
    assert here.world.path("-").exists()


def test_a_token_of_another_store_names_both(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", here.held())
    elsewhere = f"sqlite://{here.world.path('other.db')}"
    code, _, err = here("release", "--url", elsewhere)
    assert code == 78
    assert f"isn't in {elsewhere}: its token is of {here.world.url}" in err
    assert holder(here.world)


def test_tokens_are_in_no_listing(world: World) -> None:
    secret = token.read(acquire(world)).claim.id
    said = "".join(
        world.run(*words)[1] for words in (["ls", "--json"], ["show", "job"], ["doctor"])
    )
    assert secret not in said


def test_a_client_gives_nothing_back_that_was_detached(world: World) -> None:
    with Client(world.url) as other:
        text = other.lock("job").acquire().detach(ttl=60)
    assert holder(world).expires_in > 50
    assert world.run("release", "-", input=text) == (0, "", "")
