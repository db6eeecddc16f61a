"""The files of the queues: survival, costs, and other programs that change them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client, StoreUnavailable
from holdfast.core.finding import Finding, Level
from holdfast.stores.sqlite.blocking import annex, header, way
from holdfast.stores.sqlite.blocking.queues import files as job_files
from holdfast.url import find
from tests.stores.sqlite.books import audit
from tests.stores.sqlite.products import jobs_of


@pytest.mark.parametrize("sync, of_put, of_ack", [("puts", 2, 1), ("all", 2, 2), ("none", 1, 1)])
def test_a_job_is_on_the_disk_before_it_is_reported_as_accepted(
    path: Path, sync: str, of_put: int, of_ack: int
) -> None:
    with Client(f"sqlite://{path}?sync={sync}") as client:
        queue = client.queue("q")
        queue.put("first")
        connection = jobs_of(client)._files.connection

        def level() -> int:
            return int(connection.execute("PRAGMA synchronous").fetchone()[0])

        queue.put("x")
        assert level() == of_put
        job = queue.take(timeout=0)
        assert job is not None
        assert job.ack()
        assert level() == of_ack


def test_a_verb_is_one_transaction_of_few_statements_at_any_depth(client: Client) -> None:
    queue = client.queue("q")
    queue.stats()
    said: list[str] = []
    jobs_of(client)._files.connection.set_trace_callback(said.append)
    taken: list[Any] = []
    verbs: list[tuple[Callable[[], object], int]] = [
        (lambda: queue.put("x", group="g", id=f"{depth}"), 16),
        (lambda: taken.append(queue.take(timeout=0)), 16),
        (lambda: taken.pop().ack(), 20),
    ]
    for depth in (10, 2000):
        queue.put_many(range(depth), group="g")
        queue.put_many(range(depth))
        for verb, most in verbs:
            said.clear()
            verb()
            assert sum(one.startswith("BEGIN") for one in said) == said.count("COMMIT") == 1
            assert len(said) <= most, said


def test_delays_continue_over_a_reboot_and_no_clock_goes_back(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_of = {"boot": 5000.0, "wall": 1_800_000_000.0, "id": 77}
    for module in (way, annex):
        monkeypatch.setattr(module, "boottime", lambda: times_of["boot"])
    for module in (header, job_files):
        monkeypatch.setattr(module, "boot_id", lambda: int(times_of["id"]))
    monkeypatch.setattr(job_files, "walltime", lambda: times_of["wall"])

    def due(client: Client) -> float:
        (record,) = client.queue("q").jobs()
        return record.due_in

    with Client(url) as client:
        client.queue("q").put("x", delay=100)
        # When the wall clock jumps, nothing changes
        times_of["wall"] += 5000
        with Client(url) as other:
            assert due(other) == pytest.approx(100, abs=0.1)
        times_of["wall"] -= 5000
    # When the machine was off for 40 seconds, then the delay has continued
    times_of.update(boot=3.0, wall=times_of["wall"] + 40, id=78)
    with Client(url) as client:
        assert due(client) == pytest.approx(60, abs=0.1)
    # And once more, when the machine starts with a clock that is years behind
    times_of.update(boot=3.0, wall=1000.0, id=79)
    with Client(url) as client:
        left = due(client)
        assert 60 <= left <= 100.1
        times_of["boot"] += left + 1
        job = client.queue("q").take(timeout=0)
        assert job is not None
        assert job.ack()


def test_fences_rise_over_a_restart_of_all(url: str) -> None:
    fences = []
    for _ in range(5):
        with Client(url) as client:
            queue = client.queue("q")
            queue.put("x", group="g")
            job = queue.take(timeout=0)
            assert job is not None
            fences.append(job.fence)
            assert job.ack()
    assert fences == sorted(set(fences))


def test_what_is_put_goes_to_the_file_that_others_find(
    path: Path, client: Client, other: Client
) -> None:
    client.queue("q").put("lost")
    other.queue("q").put("lost, too")
    # When the file is deleted while both clients have it open
    for end in ("", "-wal", "-shm"):
        os.unlink(f"{path}-queues{end}")
    # Then a job that is put after that is in the new file, where both clients read
    client.queue("q").put("kept")
    job = other.queue("q").take(timeout=0)
    assert job is not None
    assert job.payload == "kept"
    assert job.ack()


def test_a_log_that_was_deleted_under_others_keeps_newcomers_out(
    path: Path, client: Client, other: Client
) -> None:
    client.queue("q").put("x")
    os.unlink(f"{path}-queues-wal")
    with pytest.raises(StoreUnavailable, match=r"log .* was deleted"):
        other.queue("q").stats()
    # A client with the log still open writes the whole log to the database when it closes
    assert client.queue("q").stats().waiting == 1
    client.close()
    assert other.queue("q").stats().waiting == 1


def test_a_deleted_folder_of_the_queues_loses_nothing(
    path: Path, client: Client, other: Client
) -> None:
    client.queue("q").put("x", group="g")
    other.queue("q").stats()
    shutil.rmtree(f"{path}-queues.d")
    job = other.queue("q").take(timeout=0)
    assert job is not None
    assert client.queue("q").take(timeout=0.3) is None
    assert job.ack()
    assert audit(path) == {"q": (0, 0, 0)}


def test_queues_and_values_have_no_files_until_they_are_used_and_doctor_looks_at_them_then(
    path: Path, url: str, client: Client
) -> None:
    store, parsed = find(url)

    def said(subject: str) -> list[Finding]:
        return [one for one in store.examine(parsed) if one.subject == subject]

    client.lock("x").acquire(timeout=1).release()
    assert said("queues") == said("values") == [*path.parent.glob("*-[qv]*")] == []
    client.queue("q").put_many(range(3))
    client.guard("g", ttl=60).get_many(["a", "b"], lambda key: key)
    for subject, text in (("queues", "jobs: 3"), ("values", "values: 2")):
        (found,) = said(subject)
        assert found.level is Level.OK
        assert text in found.text


def test_a_put_that_waits_for_the_disk_delays_no_lock(client: Client) -> None:
    client.queue("q").put("x")
    connection = jobs_of(client)._files.connection
    connection.execute("BEGIN IMMEDIATE")
    client.lock("x").acquire(timeout=1).release()
    connection.rollback()
