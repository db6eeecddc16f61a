"""Bugs planted into the simple recipe on ZooKeeper, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

ROOM = "holdfast.stores.zookeeper"
SIMPLE_STORE = f"{ROOM}.simple"
FOLDER = "tests/stores/zookeeper"
TESTS = f"{FOLDER}/test_simple.py"
SPARES = f"{TESTS}::test_a_late_release_does_not_end_a_later_hold"
LOST = f"{FOLDER}/test_conforms.py::test_what_is_lost_on_the_way_leaves_no_node_behind"

SIMPLE = [
    bug(
        "zookeeper, simple: a release deletes any node with the name of the lock",
        SPARES,
        (
            SIMPLE_STORE,
            "        return Multi((Delete(mine.path), Delete(mine.folder, _WRITTEN)))\n",
            "        return Delete(mine.folder)\n",
        ),
    ),
    bug(
        "zookeeper, simple: a release deletes the node of a client that only created it",
        SPARES,
        (SIMPLE_STORE, "Delete(mine.folder, _WRITTEN)", "Delete(mine.folder)"),
    ),
    bug(
        "zookeeper, simple: a renewal doesn't check whose node it is",
        f"{TESTS}::test_a_holder_whose_node_was_deleted_is_lost_and_the_next_holds[sync]",
        (
            SIMPLE_STORE,
            "            if isinstance(look, Stat) and look.czxid == mine.stat.czxid:\n",
            "            if isinstance(look, Stat):\n",
        ),
    ),
    bug(
        "zookeeper, simple: a holder that was broken deletes the node of the next one",
        f"{TESTS}::test_a_holder_whose_node_was_deleted_is_lost_and_the_next_holds[sync]",
        (SIMPLE_STORE, "        if mine.dead is Loss.BROKEN:\n", "        if False:\n"),
    ),
    bug(
        "zookeeper, simple: a node whose creation got no reply is never found",
        f"{LOST}[simple-sync-join-a_cut_reply-patient]",
        (
            SIMPLE_STORE,
            "        if not isinstance(stat, Stat):\n            return False\n",
            "        if stat is not None:\n            return False\n",
        ),
    ),
    bug(
        "zookeeper, simple: a waiter doesn't watch for the end of the node",
        f"{TESTS}::test_we_are_served_as_soon_as_the_others_node_is_gone",
        (
            SIMPLE_STORE,
            "[Get(mine.folder, partial(mine.heard, _NODE))]",
            "[Get(mine.folder)]",
        ),
    ),
    bug(
        "zookeeper, simple: the folder of a line counts as the lock of another client",
        f"{TESTS}::test_a_line_and_the_simple_recipe_refuse_each_other",
        (
            f"{ROOM}.holders",
            "    return stat.folder and not stat.session\n",
            "    return False\n",
        ),
    ),
]
