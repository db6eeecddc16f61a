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
from tests.cli.across import Here, holder
from tests.cli.world import until


@pytest.fixture
def held(here: Here, monkeypatch: pytest.MonkeyPatch) -> str:
    """The token of a hold, which is in the environment, too."""
    text = here.held()
    monkeypatch.setenv("HOLDFAST_TOKEN", text)
    return text


def test_check_answers_by_its_exit_status(here: Here, held: str) -> None:
    passed = token.read(held)
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


def test_check_names_the_adopter_and_reports_the_release(here: Here, held: str) -> None:
    with Client(here.world.url, label="the other") as other:
        hold = other.adopt(held)
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
    until(lambda: not here.world.claims(), "its time has expired")
    for command in ("renew", "check", "release"):
        code, out, err = here(command)
        assert (code, out) == (76, ""), command
        assert "has expired" in err
    assert here.world.claims() == []


def test_an_unreachable_store_has_a_separate_exit_status(here: Here, held: str) -> None:
    for command in ("renew", "check", "release"):
        code, out, err = here(command, "--url", "redis://127.0.0.1:1")
        assert (code, out) == (69, ""), command
        assert err.startswith("holdfast: ")


#: How a token file is spoiled.
SPOILS: dict[str, Callable[[Path], object]] = {
    "by_mode": lambda path: path.chmod(0o640),
    "by_link": lambda path: path.symlink_to(path.rename(path.parent / "moved")),
    "by_folder": lambda path: path.unlink() or path.mkdir(),
    "by_pipe": lambda path: path.unlink() or os.mkfifo(path),
    "by_cut": lambda path: path.write_text(path.read_text()[:40]),
    "by_absence": lambda path: path.unlink(),
}


@pytest.mark.parametrize("spoil, status", [(one, 78 if one == "by_mode" else 65) for one in SPOILS])
def test_a_token_file_open_to_other_users_is_refused(here: Here, spoil: str, status: int) -> None:
    file = here.world.path("token")
    file.touch(0o600)
    file.write_text(here.held())
    SPOILS[spoil](file)
    code, out, err = here("release", "--token-file", str(file))
    assert (code, out) == (status, ""), err
    assert err.count("\n") == 1
    assert err.startswith("holdfast: ")
    assert holder(here.world)


def test_what_is_no_token_is_refused_in_one_line(
    here: Here, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = "A" if held[50] != "A" else "B"
    for bad in (held[:-5], held[:50] + letter + held[51:], "", "hf1." + held[4:], None):
        if bad is None:
            monkeypatch.delenv("HOLDFAST_TOKEN")
        else:
            monkeypatch.setenv("HOLDFAST_TOKEN", bad)
        code, out, err = here("release")
        assert (code, out, err.count("\n")) == (65, "", 1)
        assert "holdfast acquire" in err or "--token-file" in err
        assert token.read(held).claim.id not in err
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


def test_a_token_of_another_store_names_both(here: Here, held: str) -> None:
    elsewhere = f"sqlite://{here.world.path('other.db')}"
    code, _, err = here("release", "--url", elsewhere)
    assert code == 78
    assert f"isn't in {elsewhere}: its token is of {here.world.url}" in err
    assert holder(here.world)
