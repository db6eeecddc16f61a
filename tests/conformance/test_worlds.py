"""holdfast with replaced threads, sockets, clocks or event loops.

gevent, eventlet, uvloop, freezegun and time-machine replace them. In each of these environments the
cases of the kit pass, or holdfast refuses it with an error that names it and the remedy.
"""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.testing.conformance import in_turn, runs
from holdfast.testing.faults import RESP, Proxy
from holdfast.testing.promise import PromiseBroken
from holdfast.testing.surroundings import surroundings
from tests.ahead import Ahead, asked
from tests.cli import world as source
from tests.conformance.worlds import WORLDS
from tests.servers.redis_server import RedisServer
from tests.torture.scale import FULL

#: For environments with a server see ``tests/platforms/test_gevent.py``.
PLACES = [
    ("gevent", "sqlite"),
    ("freezegun", "sqlite"),
    ("freezegun", "redis"),
    *((world, "memory") for world in WORLDS),
]
if FULL:
    SERVERS = ("redis", "postgresql", "mysql", "zookeeper")
    PLACES += [(world, store) for world in ("gevent", "eventlet", "uvloop") for store in SERVERS]
#: The cases of the kit that a usual run plays.
CORE = {
    "a_renewed_hold_outlives_its_ttl",
    "never_two_are_inside_at_once",
    "waiters_are_served_in_order_of_arrival",
    "a_bounded_wait_for_a_busy_name_ends_in_time_and_leaves_the_line",
    "a_waiter_in_another_process_is_served_at_the_release",
    "on_lost_is_called_once_with_the_hold_and_the_reason",
    "the_same_flow_enters_again_and_the_last_one_out_frees",
    "jobs_of_a_group_come_in_order_one_at_a_time",
    "a_lease_is_kept_alive_as_long_as_the_work_takes",
    "a_worker_calls_its_handler_and_settles_by_what_comes_of_it",
    "of_many_who_miss_one_computes_and_all_get_its_value",
    "a_read_after_a_pause_takes_no_longer",  # over a connection that was idle meanwhile
}
#: Seconds after which a program that doesn't end is killed.
STUCK_S = 100.0

Failed = dict[str, list[tuple[bool, str]]]


def told(*words: str, given: str = "") -> str:
    """The output of another Python process."""
    done = subprocess.run(
        [sys.executable, *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=None if FULL else STUCK_S,
        cwd=Path(__file__).parents[2],
        # Random cases of a class in the kit need not be repeated in each environment.
        env=surroundings(PYTHONPATH=str(source.ROOT / "src"), HOLDFAST_TORTURE=""),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def played(world: str, urls: dict[str, str]) -> Failed:
    """The failures in this environment on each store, and whether a promise was broken."""
    lines = []
    for store, url in urls.items():
        mine = (one for one in runs(store) if one.face == WORLDS[world][1] and not one.case.alone)
        these = [run for run in in_turn(mine) if FULL or run.case.name in CORE]
        lines += [json.dumps([str(run), url]) for run in these]
    said = told("-m", "tests.conformance.worlds", world, given="\n".join(lines))
    failed: Failed = {store: [] for store in urls}
    for run, promise, text in map(json.loads, said.splitlines()):
        failed[run.partition("-")[0]].append((promise, f"{run}\n{text}"))
    return failed


@pytest.fixture(scope="module")
def failures(request: pytest.FixtureRequest, urls: dict[str, str]) -> Iterator[Ahead[str, Failed]]:
    """The failures, by environment and store. Each environment is one program."""
    stores: dict[str, list[str]] = {}
    for world, store in asked(request, KEPT, "patched", "store"):
        stores.setdefault(world, []).append(store)

    def play(world: str) -> Failed:
        return played(world, {store: urls[store] for store in stores[world]})

    with Ahead(play, stores, 2) as ahead:
        yield ahead


@pytest.mark.usual(2)
@pytest.mark.parametrize("patched, store", PLACES)
def test_the_kit_is_kept(patched: str, store: str, failures: Ahead[str, Failed]) -> None:
    failed = failures[patched][store]
    for promise, text in failed:
        if promise:
            raise PromiseBroken(text)
    assert not failed, "\n".join(text for _, text in failed)


KEPT = test_the_kit_is_kept.__name__


def printed(program: str, *words: str, patched: str = "gevent") -> list[str]:
    """The words that a program prints in this environment."""
    enter = f"from tests.conformance.worlds import WORLDS\nWORLDS[{patched!r}][0]()\n"
    return told("-c", (enter if patched else "") + textwrap.dedent(program), *words).split()


#: A program that tries to acquire and gets no answer. It prints whether the file mutex was the
#: reason, and whether another greenlet had its turn in the meantime.
TRIES = """
    import sys, threading, time
    from holdfast import Client, StoreUnavailable
    beats = []
    def beat():
        while True:
            time.sleep(0.05)
            beats.append(1)
    threading.Thread(target=beat, daemon=True).start()
    try:
        Client(sys.argv[1]).lock(sys.argv[2]).acquire(timeout=1.0)
    except StoreUnavailable as wrong:
        print("gate" in str(wrong), len(beats) > 2)
"""


@pytest.mark.parametrize("world", ["gevent", "eventlet"])
def test_neither_a_silent_server_nor_a_locked_file_mutex_holds_a_greenlet_up(
    world: str, shared_redis: RedisServer, tmp_path: Path, own_name: str
) -> None:
    with Proxy(shared_redis.host, shared_redis.port, RESP) as proxy:
        proxy.blackhole()
        url = f"redis://127.0.0.1:{proxy.port}"
        assert printed(TRIES, url, own_name, patched=world) == ["False", "True"]
    url = f"sqlite://{tmp_path}/locks.db"
    with Client(url) as locks, locks.lock(own_name):
        pass
    with open(tmp_path / "locks.db.d" / "gate") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        assert printed(TRIES, url, own_name, patched=world) == ["True", "True"]


def test_a_wait_for_one_descriptor_does_not_end_by_an_earlier_one_for_two() -> None:
    text = """
    import socket, time
    from holdfast.runtime.polling.blocking import READ, poller
    (one, to_one), (two, to_two), (late, _) = (socket.socketpair() for _ in range(3))
    to_one.send(b"x")
    to_two.send(b"x")
    both, last = poller(), poller()
    both.register(one, READ)
    both.register(two, READ)
    last.register(late, READ)
    both.poll()
    began = time.monotonic()
    print(len(last.poll(50)), time.monotonic() - began > 0.04)
    """
    assert printed(text, patched="eventlet") == ["0", "True"]


def test_a_look_at_a_descriptor_is_free_while_another_greenlet_waits_for_it() -> None:
    text = """
    import socket, threading, time
    from holdfast.runtime.polling.blocking import READ, poller
    (one, to_one), found = socket.socketpair(), []
    waits, looks = poller(), poller()
    waits.register(one, READ)
    looks.register(one, READ)
    threading.Thread(target=lambda: found.extend(waits.poll(5000))).start()
    time.sleep(0.01)
    print(len(looks.poll(0)))
    to_one.send(b"x")
    print(len(looks.poll(0)))
    while not found:
        time.sleep(0.01)
    """
    assert printed(text, patched="eventlet") == ["0", "1"]


def test_a_program_that_is_patched_in_part_is_refused_by_name_with_the_remedy() -> None:
    text = """
    from holdfast import AsyncClient, Client, ConfigError
    def refused(by):
        for client in (Client, AsyncClient):
            try:
                client("memory://")
            except ConfigError as wrong:
                assert by in str(wrong), wrong
                print(by)
    if {gevent}:
        from gevent import monkey
        Client("memory://")
        monkey.patch_socket()
        refused("monkey.patch_all()")
        monkey.patch_all(thread=False)
        refused("threading")
        monkey.patch_all()
    else:
        import eventlet
        Client("memory://")
        eventlet.monkey_patch(socket=True, select=True)
        refused("eventlet.monkey_patch()")
        eventlet.monkey_patch()
    Client("memory://")
    """
    by_gevent = printed(text.replace("{gevent}", "True"), patched="")
    assert by_gevent == ["monkey.patch_all()"] * 2 + ["threading"] * 2
    by_eventlet = printed(text.replace("{gevent}", "False"), patched="")
    assert by_eventlet == ["eventlet.monkey_patch()"] * 2


def test_a_client_from_before_the_patch_is_refused_by_name_with_the_remedy() -> None:
    text = """
    from holdfast import Client, ConfigError
    early = Client("memory://")
    from gevent import monkey
    monkey.patch_all()
    try:
        early.lock("x").acquire()
    except ConfigError as wrong:
        print("gevent" in str(wrong))
    print(len(Client("memory://").inspect()))
    """
    assert printed(text, patched="") == ["True", "0"]
