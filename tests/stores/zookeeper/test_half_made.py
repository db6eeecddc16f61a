"""Queues that exist in part: their creation was interrupted, or nodes were removed by hand."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from holdfast import Client
from holdfast.stores.zookeeper.blocking.driver import Driver, Slot
from holdfast.stores.zookeeper.queues.names import FOLDERS, Place, place_of
from holdfast.stores.zookeeper.requests import Create, Request
from holdfast.testing.promise import promised
from tests.stores.zookeeper.conftest import MakeClient


def place_at(queue: str) -> Place:
    return place_of("/holdfast", queue)


def cut_amid_the_making(client: Client, queue: str, folder: str) -> None:
    """Interrupt the first put of a queue before it requests this folder."""
    path, send = place_at(queue).at(folder), Driver.send

    def cut(driver: Driver, request: Request, answer: Slot) -> None:
        if isinstance(request, Create) and request.path == path:
            raise KeyboardInterrupt
        send(driver, request, answer)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Driver, "send", cut)
        with pytest.raises(KeyboardInterrupt):
            client.queue(queue).put(1, id="one")


def test_a_queue_whose_making_was_cut_is_whole_once_something_was_put(
    new_client: MakeClient, kazoo: KazooClient, own_name: str
) -> None:
    ours, other = new_client(), new_client()
    for folder in FOLDERS:
        name = f"{own_name}-{folder}"
        cut_amid_the_making(ours, name, folder)
        queue = other.queue(name)
        queue.put(1, id="one")
        with promised(f"cut before {folder}: all folders are there"):
            assert set(kazoo.get_children(place_at(name).base)) == {*FOLDERS}


@pytest.mark.parametrize("group", [None, "g"])
def test_a_job_is_settled_though_a_folder_of_its_queue_was_removed(
    other: Client, kazoo: KazooClient, own_name: str, group: str | None
) -> None:
    queue = other.queue(own_name)
    queue.put("done", group=group)
    queue.put("dead", group=group)
    for folder in ("done", "dead"):
        job = queue.take(5.0)
        assert job is not None
        assert job.payload == folder
        kazoo.delete(place_at(own_name).at(folder))
        assert job.ack() if folder == "done" else job.dead_letter()
    with promised("each job is settled once"):
        assert queue.take(0) is None
        assert [one.id for one in queue.jobs("dead")] == [job.id]


@pytest.mark.parametrize("group", [None, "g"])
def test_the_next_job_follows_one_that_was_removed_while_it_was_done(
    other: Client, kazoo: KazooClient, own_name: str, group: str | None
) -> None:
    queue, place = other.queue(own_name), place_at(own_name)
    queue.put(1, group=group)
    queue.put(2, group=group)
    job = queue.take(5.0)
    assert job is not None
    folder = place.at(f"groups/{group}" if group else "jobs")
    kazoo.delete(f"{folder}/{min(kazoo.get_children(folder))}")
    assert not job.ack()
    following = queue.take(5.0)
    with promised("the job behind it isn't lost"):
        assert following is not None
        assert following.payload == 2
    following.ack()
    assert kazoo.get_children(place.at("taken")) == []
