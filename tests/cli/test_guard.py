"""Refresh guards from the shell: listing them, and having values computed again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast import Client, ConfigError, Guard
from tests.cli.conftest import Say


def filled(client: Client, name: str = "homepage", **options: Any) -> Guard:
    """Return a guard with a value and some counts."""
    guard = client.guard(name, **{"ttl": 60, "stale": 300, **options})
    for _ in range(3):
        assert guard.get(lambda: "value") == "value"
    guard.stats()
    return guard


def failed(guard: Guard, key: str) -> None:
    def fail() -> None:
        raise LookupError("no \x1b[31mpage")

    with pytest.raises(LookupError):
        guard.get(fail, key=key)
    guard.stats()


def test_show_also_prints_the_counts_of_the_guard_of_that_name(client: Client, say: Say) -> None:
    filled(client)
    filled(client, "homepage2")
    first, _, head, row = say("show", "homepage")[1].splitlines()
    assert "homepage is free" in first
    assert head.split()[:2] == ["GUARD", "HITS"]
    assert row.split()[0] == "homepage"
    assert "GUARD" not in say("show", "nothing")[1]


def test_ls_has_one_line_for_all_guards_and_no_table(
    client: Client, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(client)
    filled(client, "other")
    client.guard("unused", ttl=60)
    with client.lock("job").acquire():
        head, row, blank, last = say("ls")[1].splitlines()
    assert (head.split()[0], row.split()[0], blank) == ("NAME", "job", "")
    assert last == "and 2 refresh guards: see `holdfast guard ls`"
    last = say("ls", "home")[1].splitlines()[-1]
    assert last == "and 1 refresh guard: see `holdfast guard ls home`"
    # The output for programs does not contain this line, and without guards there is none
    assert json.loads(say("ls", "--json")[1]) == []
    assert "guard" not in say("ls", "nothing")[1]

    # And without the right to read guards the locks are listed
    def refuse(*_: object, **__: object) -> None:
        raise ConfigError("planted: no right to it")

    monkeypatch.setattr("holdfast.stores.memory.guards.MemoryGuards.survey", refuse)
    with client.lock("homepage").acquire():
        lines = say("ls")[1].splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "homepage"]


def test_guards_are_listed_with_what_was_counted(client: Client, say: Say) -> None:
    filled(client)
    failed(client.guard("user:{id}", ttl=60), "7")
    code, out, _ = say("guard", "ls")
    head, *rows = [line.split() for line in out.splitlines()]
    assert code == 0
    assert head[:5] == ["NAME", "HITS", "STALE", "MISSES", "COMPUTES"]
    assert rows[0] == ["homepage", "2", "0", "1", "1", "0", "0", "0", "0"]
    assert rows[1] == ["user:{id}", "0", "0", "1", "1", "0", "0", "1", "0"]
    assert say("guard", "ls", "user", "--names")[1] == "user:{id}\n"
    assert [one["hits"] for one in json.loads(say("guard", "ls", "--json")[1])] == [2, 0]
    assert say("guard", "ls", "nothing")[:2] == (
        0, "no guard that begins with nothing has any counts\n",
    )  # fmt: skip


def test_a_value_is_shown_with_its_ages(client: Client, say: Say) -> None:
    filled(client)
    code, out, _ = say("guard", "show", "homepage")
    assert code == 0
    assert out.startswith("homepage: 2 hits, 0 stale, 1 miss; computed 1 time, 0 failures")
    assert "its value: fresh, stale in " in out
    assert "6 bytes, took " in out
    told = json.loads(say("guard", "show", "homepage", "--json")[1])
    assert told["tally"]["hits"] == 2
    assert (told["value"]["state"], told["value"]["key"]) == ("fresh", "")
    assert told["value"]["owner"] is told["value"]["lease_in"] is None


def test_a_failure_is_shown_with_its_reason_and_cannot_steer_the_terminal(
    client: Client, say: Say
) -> None:
    failed(client.guard("user", ttl=60, failure_ttl=60), "7")
    out = say("guard", "show", "user", "7")[1]
    assert "value '7': missing" in out
    assert r"failed 1 time in a row, retried in " in out
    assert r"LookupError: no \x1b[31mpage" in out
    assert say("guard", "show", "user")[1].count("\n") == 1


def test_show_names_the_client_that_computes(client: Client, say: Say) -> None:
    seen = []

    def compute() -> str:
        seen.append(say("guard", "show", "homepage")[1])
        seen.append(json.loads(say("guard", "show", "homepage", "--json")[1])["value"]["owner"])
        return "value"

    assert client.guard("homepage", ttl=60).get(compute) == "value"
    assert f"computed by {client.owner}, whose lease ends in " in seen[0]
    assert "unless renewed" in seen[0]
    assert seen[1] == client.owner


def test_an_unused_guard_is_no_error(client: Client, say: Say) -> None:
    assert say("guard", "show", "none") == (0, "none: it has no counts\n", "")
    assert say("guard", "show", "none", "key")[1].endswith("value 'key': missing\n")


def test_values_are_forgotten(client: Client, say: Say) -> None:
    guard = filled(client)
    assert guard.get_many(["a", "b"], str.upper) == {"a": "A", "b": "B"}
    assert say("guard", "invalidate", "homepage", "a", "b", "c") == (
        0,
        "2 values of homepage invalidated\n",
        "",
    )
    assert say("guard", "invalidate", "homepage")[:2] == (0, "1 value of homepage invalidated\n")
    assert say("guard", "invalidate", "homepage")[:2] == (1, "0 values of homepage invalidated\n")
    assert guard.get(lambda: "new") == "new"


def test_values_in_an_external_cache_are_not_invalidated_by_the_command(
    client: Client, say: Say
) -> None:
    filled(client, cache={})
    assert "in an external cache" in say("guard", "show", "homepage")[1]
    assert json.loads(say("guard", "show", "homepage", "--json")[1])["value"]["elsewhere"] is True
    code, out, err = say("guard", "invalidate", "homepage")
    assert (code, out) == (78, "")
    assert "in an external cache" in err
    assert "its value: fresh" in say("guard", "show", "homepage")[1]


@pytest.mark.parametrize(
    "words, code, told",
    [
        (["show"], 64, "required: NAME"),
        (["shw", "x"], 64, 'did you mean "show"?'),
        (["show", "x", "y", "z"], 64, "one argument too many"),
        (["show", "x", "k" * 513], 78, "512"),
        (["invalidate", "x", "k" * 513], 78, "512"),
        (["ls", "--url", "nowhere://"], 78, "nowhere"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_one_line_that_helps(
    client: Client, say: Say, words: list[str], code: int, told: str
) -> None:
    got, out, err = say("guard", *words)
    assert (got, out) == (code, "")
    assert told in err
    assert err.count("\n") == 1
