"""Serial queues from the shell: put, list, retry and purge."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from holdfast import Client
from holdfast.cli import progress, tree
from holdfast.cli.queue import mend
from holdfast.sync.queue import Queue
from tests.cli.conftest import Say

Lines = Callable[..., None]


@pytest.fixture
def queue(client: Client) -> Queue:
    return client.queue("q", retry_delay=0, retry_delay_max=0, max_attempts=1)


def test_show_also_prints_the_job_counts_of_the_queue_of_that_name(queue: Queue, say: Say) -> None:
    queue.put("one", group="a")
    queue.put("two", group="b")
    with queue.take() as job:
        code, out, _ = say("show", "q")
        job.dead_letter()
    first, blank, told = out.splitlines()
    assert (code, first.startswith("q is free"), blank) == (0, True, "")
    assert told.startswith("queue: 1 waiting, 1 taken, 0 dead, 0 done in 2 groups; the oldest has")
    for name in ("nothing", "n" * 600):
        assert "queue" not in say("show", name)[1]
    assert json.loads(say("show", "--json", "q")[1])["claims"] == []


def test_ls_has_one_line_for_all_queues(queue: Queue, client: Client, say: Say) -> None:
    queue.put("one")
    client.queue("other").put_many(["two", "three"])
    guard = client.guard("g", ttl=60)
    guard.get(lambda: 1)
    guard.stats()
    with client.lock("job").acquire(), queue.take():
        *_, blank, guards, queues = say("ls")[1].splitlines()
    assert blank == ""
    assert guards == "and 1 refresh guard: see `holdfast guard ls`"
    assert queues == "and 2 queues (2 waiting, 1 taken, 0 dead): see `holdfast queue ls`"
    *_, blank, last = say("ls", "o")[1].splitlines()
    assert blank == ""
    assert last == "and 1 queue (2 waiting, 0 taken, 0 dead): see `holdfast queue ls o`"
    # The output for programs does not contain this line, and without queues there is none
    assert say("ls", "--names")[1] == ""
    assert "queue" not in say("ls", "nothing")[1]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    """Write bytes to stdin, in ``pieces`` parts."""
    begin, end = os.pipe()
    writers = []

    def given(raw: bytes, pieces: int = 1) -> None:
        def write() -> None:
            step = -(-len(raw) // pieces)
            with contextlib.suppress(BrokenPipeError), os.fdopen(end, "wb", 0) as file:
                for start in range(0, len(raw), step):
                    file.write(raw[start : start + step])

        writers.append(threading.Thread(target=write))
        writers[0].start()

    with os.fdopen(begin) as file:
        monkeypatch.setattr(sys, "stdin", file)
        yield given
    writers[0].join()


def drained(queue: Queue) -> list[object]:
    found = []
    while job := queue.take(0):
        found.append(job.payload)
        job.ack()
    return found


def test_payloads_are_arguments_and_come_in_order(queue: Queue, say: Say) -> None:
    assert say("queue", "put", "q", "a", "b", "--group", "g", "--", "-c") == (
        0, "q: accepted 3 jobs\n", "",
    )  # fmt: skip
    assert [job.group for job in queue.jobs()] == ["g"] * 3
    assert drained(queue) == ["a", "b", "-c"]


def test_payloads_are_lines_of_stdin_however_they_come(
    queue: Queue, say: Say, lines: Lines
) -> None:
    lines(b"one\n\ntwo \xe2\x98\x83\n\xff\nlast" + 2500 * b"\n1", pieces=7)
    assert say("queue", "put", "--group=g", "q")[:2] == (0, "q: accepted 2504 jobs\n")
    assert drained(queue) == ["one", "two \u2603", b"\xff", "last", *["1"] * 2500]


def test_a_line_may_be_a_whole_job(queue: Queue, say: Say, lines: Lines) -> None:
    jobs = [
        {"payload": {"order": 1}, "group": "a", "id": "o1"},
        {"payload": "again", "id": "o1"},
        {"payload": 2, "delay": 60},
    ]
    lines(b"".join(json.dumps(job).encode() + b"\n" for job in jobs))
    assert say("queue", "put", "q", "--jobs", "--group", "b")[1] == (
        "q: accepted 2 jobs, dropped 1 duplicate\n"
    )
    first, second = queue.jobs()
    assert (first.id, first.group, first.payload) == ("o1", "a", b'j{"order":1}')
    assert (second.group, second.state) == ("b", "delayed")


def test_a_duplicate_is_reported_with_its_id(queue: Queue, say: Say) -> None:
    for told in ("order:1\n", "order:1\tduplicate\n"):
        assert say("queue", "put", "q", "x", "--id", "order:1", "--ids") == (0, told, "")
    assert queue.stats().waiting == 1


@pytest.mark.parametrize(
    "words, code, told",
    [
        (["put", "q", "a", "b", "--id", "x"], 64, "--id is for one job"),
        (["put", "q", "{", "--json"], 65, "payload 1 is not JSON"),
        (["put", "q", '[{"a": 1, "a": 2}]', "--json"], 65, "'a' occurs twice in one object"),
        (["put", "q", "[1e999]", "--json"], 78, "payload[0] is inf"),
        (["put", "q", "1", "--jobs"], 65, 'payload 1 is not {"payload": ...}'),
        (["put", "q", '{"payload":1,"grup":2}', "--jobs"], 78, "'grup' isn't a part of a job"),
        (["put", "q", "a", "--group", "x" * 300], 78, "at most 256"),
        (["put", "q", "a", "--delay", "2q"], 64, "is not a duration"),
        (["put"], 64, "required: NAME"),
        (["pt", "q"], 64, 'there is no command \'pt\'; did you mean "put"?'),
        ([], 64, "required: VERB"),
        (["put", "q", "--jsn"], 64, 'did you mean "--json"? (see holdfast queue put --help)'),
        (["work", "q"], 64, "give either a command after the name"),
        (["work", "q", "--on-dead", "stop", "--", "true"], 64, "invalid choice: 'stop'"),
        (["work", "q", "--rate", "x", "--", "true"], 64, "argument --rate: 'x' is not a number"),
        (["work", "q", "--rate", "0", "--", "true"], 78, "is not above 0"),
        (["retry", "q"], 64, "give either the ids"),
        (["retry", "q", "--all", "x"], 64, "give either the ids"),
        (["purge", "q"], 64, "without a terminal, purging 'q' needs --yes"),
        (["show", "q", "--limit", "0"], 64, "not a whole number"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_one_line_that_helps(
    queue: Queue, say: Say, words: list[str], code: int, told: str
) -> None:
    got, out, err = say("queue", *words)
    assert (got, out) == (code, "")
    assert told in err
    assert err.count("\n") == 1
    assert queue.jobs() == []


def test_a_store_without_queues_is_reported(say: Say) -> None:
    code, _, err = say("queue", "put", "q", "x", "--url", "redis+plain://localhost:1")
    assert (code, "no serial queues" in err) == (78, True)


def test_the_number_of_jobs_accepted_before_a_bad_line_is_reported(
    queue: Queue, say: Say, lines: Lines
) -> None:
    lines(b"1\n" * 40_000 + b"{\n")  # more than is read at once
    code, _, err = say("queue", "put", "q", "--json")
    assert code == 65
    assert "line 40001 is not JSON" in err
    assert f"{queue.stats().waiting} jobs accepted before the error" in err
    assert queue.stats().waiting > 0


def test_ls_prints_the_number_of_jobs_in_each_state(queue: Queue, say: Say) -> None:
    assert say("queue", "ls")[1] == "there is no queue\n"
    queue.put_many([1, 2, 3], group="g")
    job = queue.take(0)
    assert job
    out = say("queue", "ls")[1].splitlines()
    assert out[0].split() == ["NAME", "WAITING", "TAKEN", "DEAD", "GROUPS", "OLDEST", "DONE"]
    assert out[1].split()[:5] == ["q", "2", "1", "0", "1"]
    assert say("queue", "ls", "--names", "q")[1] == "q\n"
    assert say("queue", "ls", "other")[1] == "there is no queue that begins with other\n"
    (told,) = json.loads(say("queue", "ls", "--json", "--rate", "0.1")[1])
    assert (told["waiting"], told["done_per_second"]) == (2, 0.0)
    job.ack()


def test_show_and_dead_list_each_job_without_control_characters(queue: Queue, say: Say) -> None:
    queue.put("a\x1b[31m", group="g")
    queue.put(b"\0", id="raw")
    job = queue.take(0)
    assert job
    job.dead_letter("no such \x1b account")
    out = say("queue", "show", "q")[1]
    assert "q: 1 waiting, 0 taken, 1 dead, 0 done" in out
    assert "\x1b" not in out
    out = say("queue", "dead", "q")[1]
    assert r"no such \x1b account" in out
    (plain,) = json.loads(say("queue", "dead", "q", "--json")[1])
    assert (plain["payload"], plain["reason"]) == ("a\x1b[31m", "no such \x1b account")
    (plain,) = json.loads(say("queue", "show", "q", "--json", "--group", "")[1])
    assert (plain["id"], plain["payload_base64"]) == ("raw", "AA==")
    assert json.loads(say("queue", "show", "q", "--json", "--state", "taken")[1]) == []
    assert say("queue", "dead", "other")[1] == "there is no queue 'other'\n"
    assert say("queue", "show", "other")[1] == "there is no queue 'other'\n"


def test_dead_letters_are_tried_again_by_id_or_all(queue: Queue, say: Say) -> None:
    for one in "abc":
        queue.put(one, id=one)
        job = queue.take(0)
        assert job
        job.dead_letter()
    assert say("queue", "retry", "q", "b")[:2] == (0, "'q': 1 dead letter is retried\n")
    assert drained(queue) == ["b"]
    assert say("queue", "retry", "--all", "q")[0] == 0
    assert sorted(map(str, drained(queue))) == ["a", "c"]
    assert say("queue", "retry", "q", "--all")[:2] == (1, "'q' has no dead letters\n")
    queue.put("late", id="flaky", delay=60)
    told = "'q': no dead letter has the id 'flaky' (it is delayed), 'gone'\n"
    assert say("queue", "retry", "q", "flaky", "gone")[:2] == (1, told)


def test_purge_removes_what_is_named_and_nothing_that_is_taken(queue: Queue, say: Say) -> None:
    queue.put_many([{"payload": n, "id": f"j{n}"} for n in range(4)])
    queue.put("late", delay=60)
    job = queue.take(0)
    assert job
    assert say("queue", "purge", "q", "-y", "j3", "j0")[:2] == (0, "'q': 1 job removed\n")
    assert say("queue", "purge", "q", "--yes", "--state", "delayed")[1] == "'q': 1 job removed\n"
    assert say("queue", "purge", "-y", "q")[1] == "'q': 2 jobs removed\n"
    assert say("queue", "purge", "-y", "q")[0] == 1
    assert job.ack()


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer, code, left", [("y\n", 0, 0), ("n\n", 1, 3), ("", 1, 3)])
def test_purge_asks_for_confirmation_at_a_terminal(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, left: int
) -> None:
    queue.put_many([1, 2, 3])
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdin", Screen(answer))
    assert mend.purge(options("purge", "q")) == code
    assert "'q' has 3 waiting, 0 taken, 0 dead." in screen.getvalue()
    assert "Remove all jobs but the taken ones? [y/N]" in screen.getvalue()
    assert queue.stats().waiting == left


def test_a_long_purge_prints_its_progress(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    monkeypatch.setattr(progress, "EVERY_S", 0.0)
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    queue.put_many(range(2500))
    assert mend.purge(options("purge", "-y", "q")) == 0
    told = screen.getvalue().split("\r\033[K")
    assert told == [
        "", *(f"holdfast: {done} jobs removed" for done in ("1,000", "2,000", "2,500")), "",
    ]  # fmt: skip
    # Without a terminal no progress is printed
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    queue.put(1)
    assert mend.purge(options("purge", "-y", "q")) == 0
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def options(*words: str) -> argparse.Namespace:
    return tree.parse(["queue", *words])
