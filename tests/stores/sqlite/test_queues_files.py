"""The files of the queues: survival, costs, and other programs that change them."""

from __future__ import annotations

import os
import sqlite3
import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client, ConfigError, StoreUnavailable
from holdfast.core.finding import Level
from holdfast.stores.sqlite.blocking import annex, header, way
from holdfast.stores.sqlite.blocking.queues import files as job_files
from holdfast.testing import lag
from holdfast.url import find
from tests.stores.sqlite.books import audit
from tests.torture.scale import FULL, figures, times

lag.watch()


def engine_of(client: Client) -> Any:
    """Return the engine of the queues of a client that has used them."""
    return client._ctx.store._port.jobs().engine  # type: ignore[attr-defined]


def told(client: Client) -> list[str]:
    """Return a list that collects all SQL statements after this call."""
    said: list[str] = []
    engine_of(client)._files.connection.set_trace_callback(said.append)
    return said


# -- durability, and the costs of verbs ----------------------------------------------------------


@pytest.mark.parametrize("sync, of_put, of_ack", [("puts", 2, 1), ("all", 2, 2), ("none", 1, 1)])
def test_a_job_is_on_the_disk_before_it_is_reported_as_accepted(
    path: Path, sync: str, of_put: int, of_ack: int
) -> None:
    with Client(f"sqlite://{path}?sync={sync}") as client:
        queue = client.queue("q")
        queue.put("first")

        def level() -> int:
            connection = engine_of(client)._files.connection
            (found,) = connection.execute("PRAGMA synchronous").fetchone()
            return int(found)

        queue.put("x")
        assert level() == of_put
        job = queue.take(timeout=0)
        assert job is not None
        assert job.ack()
        assert level() == of_ack


def test_a_verb_is_one_transaction_of_few_statements_at_any_depth(path: Path) -> None:
    with Client(f"sqlite://{path}") as client:
        queue = client.queue("q")
        costs = {}
        for depth in (10, 2000):
            queue.put_many(range(depth), group="g")
            queue.put_many(range(depth))
            said = told(client)
            for what in ("put", "take", "ack"):
                said.clear()
                if what == "put":
                    queue.put("x", group="g", id=f"{depth}")
                elif what == "take":
                    job = queue.take(timeout=0)
                else:
                    assert job is not None
                    assert job.ack()
                assert sum(one.startswith("BEGIN") for one in said) == 1
                assert sum(one == "COMMIT" for one in said) == 1
                costs[depth, what] = len(said)
            assert costs[depth, "put"] <= 16
            assert costs[depth, "take"] <= 16
            assert costs[depth, "ack"] <= 20
        print(costs)


def test_a_take_costs_the_same_at_any_depth(path: Path) -> None:
    # Given a queue with few jobs, and a queue with many jobs
    depths = (1000, times(1_000_000, 20_000))
    tries = 300 if FULL else 60
    middles: list[dict[str, float]] = []
    for depth in depths:
        with Client(f"sqlite://{path.parent}/{depth}.db?sync=none") as client:
            queue = client.queue("q")
            groups = max(depth // 10, 400)
            for start in range(0, depth, 1000):
                queue.put_many(
                    {"payload": "x" * 100, "group": f"g{number % groups}"}
                    for number in range(start, start + 1000)
                )
            spans: dict[str, list[float]] = {"take": [], "ack": []}
            for _ in range(tries):
                begun = time.perf_counter()
                job = queue.take(timeout=0)
                taken = time.perf_counter()
                assert job is not None
                assert job.ack()
                spans["take"].append(taken - begun)
                spans["ack"].append(time.perf_counter() - taken)
            for what, found in spans.items():
                print(figures(f"{what} at a depth of {depth}", found))
            middles.append({what: statistics.median(found) for what, found in spans.items()})
    # Then both cost about the same; the bound here is for a busy machine
    few, many = middles
    print({what: many[what] / few[what] for what in few})
    assert many["take"] < few["take"] * (1.5 if FULL else 3)


# -- time --------------------------------------------------------------------------------------


def test_delays_continue_over_a_reboot_and_no_clock_goes_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
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

    with Client(f"sqlite://{path}") as client:
        client.queue("q").put("x", delay=100)
        # When the wall clock jumps, nothing changes
        times_of["wall"] += 5000
        with Client(f"sqlite://{path}") as other:
            assert due(other) == pytest.approx(100, abs=0.1)
        times_of["wall"] -= 5000
    # When the machine was off for 40 seconds, then the delay has continued
    times_of.update(boot=3.0, wall=times_of["wall"] + 40, id=78)
    with Client(f"sqlite://{path}") as client:
        assert due(client) == pytest.approx(60, abs=0.1)
    # And once more, when the machine starts with a clock that is years behind
    times_of.update(boot=3.0, wall=1000.0, id=79)
    with Client(f"sqlite://{path}") as client:
        left = due(client)
        assert 60 <= left <= 100.1
        times_of["boot"] += left + 1
        job = client.queue("q").take(timeout=0)
        assert job is not None
        assert job.ack()


def test_fences_rise_over_a_restart_of_all(path: Path) -> None:
    fences = []
    for _ in range(5):
        with Client(f"sqlite://{path}") as client:
            queue = client.queue("q")
            queue.put("x", group="g")
            job = queue.take(timeout=0)
            assert job is not None
            fences.append(job.fence)
            assert job.ack()
    assert fences == sorted(set(fences))


# -- deleted files, and files of other programs ----------------------------------------------------


def test_what_is_put_goes_to_the_file_that_others_find(path: Path) -> None:
    with Client(f"sqlite://{path}") as here, Client(f"sqlite://{path}") as there:
        here.queue("q").put("lost")
        there.queue("q").put("lost, too")
        # When the file is deleted while both clients have it open
        for end in ("", "-wal", "-shm"):
            os.unlink(f"{path}-queues{end}")
        # Then a job that is put after that is in the new file, where both clients read
        here.queue("q").put("kept")
        job = there.queue("q").take(timeout=0)
        assert job is not None
        assert job.payload == "kept"
        assert job.ack()


def test_a_log_that_was_deleted_under_others_keeps_newcomers_out(path: Path) -> None:
    with Client(f"sqlite://{path}") as here:
        here.queue("q").put("x")
        os.unlink(f"{path}-queues-wal")
        with Client(f"sqlite://{path}") as there:
            with pytest.raises(StoreUnavailable, match=r"log .* was deleted"):
                there.queue("q").stats()
            # A client with the log still open writes the whole log to the database when it closes
            assert here.queue("q").stats().waiting == 1
            here.close()
            assert there.queue("q").stats().waiting == 1


def test_a_deleted_folder_of_the_queues_loses_nothing(path: Path) -> None:
    with Client(f"sqlite://{path}") as here, Client(f"sqlite://{path}") as there:
        here.queue("q").put("x", group="g")
        there.queue("q").stats()
        for folder in ("sessions", "idle", ""):
            where = Path(f"{path}-queues.d/{folder}")
            for file in where.iterdir():
                file.unlink() if not file.is_dir() else None
            where.rmdir()
        job = there.queue("q").take(timeout=0)
        assert job is not None
        assert here.queue("q").take(timeout=0.3) is None
        assert job.ack()
    assert audit(path) == {"q": (0, 0, 0)}


def test_the_database_of_another_program_is_left_unchanged(path: Path) -> None:
    foreign = sqlite3.connect(f"{path}-queues")
    foreign.execute("CREATE TABLE theirs (x)")
    foreign.commit()
    foreign.close()
    before = Path(f"{path}-queues").read_bytes()
    with Client(f"sqlite://{path}") as client, pytest.raises(ConfigError, match="another app"):
        client.queue("q").put("x")
    assert Path(f"{path}-queues").read_bytes() == before


def test_the_doctor_looks_at_the_queues_too(path: Path) -> None:
    store, url = find(f"sqlite://{path}")
    with Client(f"sqlite://{path}") as client:
        client.lock("x").locked()
        assert not [one for one in store.examine(url) if one.subject == "queues"]
        client.queue("q").put_many(range(3))
        (found,) = [one for one in store.examine(url) if one.subject == "queues"]
        assert found.level is Level.OK
        assert "jobs: 3" in found.text


def test_locks_alone_make_no_files_of_queues(path: Path) -> None:
    with Client(f"sqlite://{path}") as client:
        with client.lock("x"):
            pass
        assert not Path(f"{path}-queues").exists()
        # And a put that waits for the disk delays no lock
        client.queue("q").put("x")
        engine = engine_of(client)
        engine._files.connection.execute("BEGIN IMMEDIATE")
        with client.lock("x", timeout=1):
            pass
        engine._files.connection.rollback()
