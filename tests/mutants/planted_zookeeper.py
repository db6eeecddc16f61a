"""Bugs planted into the ZooKeeper store, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

ROOM = "holdfast.stores.zookeeper"
TESTS = "tests/stores/zookeeper"
LOST, WAITING, LINE = (f"{TESTS}/test_{name}.py" for name in ("lost", "waiting", "line"))
NO_NODE = f"{TESTS}/test_conforms.py::test_what_is_lost_on_the_way_leaves_no_node_behind"
SESSION = (
    f"{TESTS}/test_urls.py::test_a_session_that_is_too_long_is_an_error_with_the_servers_limit"
)
SET_BACK = f"{TESTS}/test_set_back.py::test_a_server_that_has_lost_data_takes_its_clients_again"
BACK = "tests/comeback/test_comeback.py::test_every_client_activity_works_again_after_an_outage"
LEFT_OPEN = "tests/conformance/test_left_open.py::test_what_is_left_open_is_free_in_time[zookeeper]"
DEAD = (
    "tests/stores/zookeeper/test_waiting.py"
    "::test_verbs_are_bounded_and_the_living_served_behind_thousands_of_dead"
)

ZOOKEEPER = [
    bug(
        "zookeeper: a thread that can't start raises a bare RuntimeError",
        f"{TESTS}/test_starting.py::test_a_client_tries_again_and_leaves_no_connection[1-sync-refused]",
        (
            f"{ROOM}.blocking.driver",
            "        except RuntimeError as wrong:  # no thread",
            "        except ZeroDivisionError as wrong:  # no thread",
        ),
    ),
    bug(
        "zookeeper: an answered read counts as a renewal",
        f"{LOST}::test_answered_reads_and_pings_extend_no_lease[sync]",
        (
            f"{ROOM}.keeping",
            "await self._port.ask([write, *lists], until)\n",
            "await self._port.ask([Look(parts[0].path), *lists], until)\n",
        ),
    ),
    bug(
        "zookeeper: a node whose creation got no reply is never found",
        f"{NO_NODE}[kazoo-sync-join-a_cut_reply-patient]",
        (f"{ROOM}.entering", "            if entry.digest == wanted:\n", "            if False:\n"),
    ),
    bug(
        "zookeeper: a claim that was cancelled before its node was known is forgotten",
        f"{NO_NODE}[kazoo-aio-join-a_late_reply-cancelled]",
        (
            f"{ROOM}.ending",
            "if mine.void or not (mine.path or await self._find(mine, until)):\n",
            "if not mine.path:\n",
        ),
    ),
    bug(
        "zookeeper: a waiter watches the first claim ahead of it, not the last",
        f"{LINE}::test_a_lock_watches_its_predecessor_and_a_reader_the_last_writer",
        (
            f"{ROOM}.line",
            "key=lambda at: (seen.weights[at], at)",
            "key=lambda at: (seen.weights[at], -at)",
        ),
    ),
    bug(
        "zookeeper: a waiter behind many holders watches only some of them",
        f"{WAITING}::test_many_permits_are_handed_on_at_once_too",
        (
            f"{ROOM}.standing",
            "            return await self._watch_folder(mine, block, until)\n",
            "            block = block._replace(nodes=block.nodes[-1:])\n",
        ),
    ),
    bug(
        "zookeeper: numbers are compared without their wrap",
        f"{LINE}::test_numbers_are_compared_across_their_wrap",
        (
            f"{ROOM}.names",
            "    return 0 < (number - than) % _TURN < _TURN // 2\n",
            "    return number > than\n",
        ),
    ),
    bug(
        "zookeeper: the fence is the number of the node",
        f"{WAITING}::test_an_empty_folder_that_is_removed_is_made_again[1]",
        (
            f"{ROOM}.standing",
            "                return Held(mine.stat.czxid, mine.ttl)\n",
            "                return Held(own.number + 1, mine.ttl)\n",
        ),
    ),
    bug(
        "zookeeper: a try doesn't wait for the tries ahead of it",
        f"{WAITING}::test_a_try_waits_for_the_tries_ahead_of_it_that_go",
        (
            f"{ROOM}.standing",
            "        if left > 0 and min(ages",
            "        if left < 0 and min(ages",
        ),
    ),
    bug(
        "zookeeper: a refused try leaves its node",
        f"{LOST}::test_a_join_that_is_sent_again_enters_once[kazoo]",
        (
            f"{ROOM}.store",
            (
                "        await self._port.ask([Delete(mine.path)], until)\n"
                "        self._own.forget(mine)\n"
            ),
            "        self._own.forget(mine)\n",
        ),
    ),
    bug(
        "zookeeper: an unrenewed hold is left to the session",
        f"{WAITING}::test_an_unrenewed_hold_is_ended_by_its_own_client[sync-kazoo]",
        (
            f"{ROOM}.mine",
            "                self.doom(mine)\n            mine.dying",
            "                mine.dead = Loss.EXPIRED\n            mine.dying",
        ),
    ),
    bug(
        "zookeeper: a release without a reply is forgotten when the renewer gives up",
        f"{LOST}::test_a_release_without_a_reply_is_carried_out_later[sync]",
        (
            f"{ROOM}.ending",
            "        except BaseException:\n            self._doom([mine])\n            raise\n",
            "        except BaseException:\n            raise\n",
        ),
    ),
    bug(
        "zookeeper: a claim can expire while it is renewed",
        f"{WAITING}::test_a_claim_that_is_being_kept_does_not_expire_meanwhile",
        (
            f"{ROOM}.mine",
            "            self.until, self.expires = self.expires, math.inf\n",
            "            self.until = self.expires\n",
        ),
    ),
    bug(
        "zookeeper: a client waits for the length of a session for a silent server",
        f"{LOST}::test_a_server_that_takes_a_connection_and_never_answers_is_given_up_soon",
        (
            f"{ROOM}.blocking.meeting",
            "        patience = min(timeout, self._patience)\n",
            "        patience = timeout\n",
        ),
    ),
    bug(
        "zookeeper: a client never returns to a server that was wiped",
        f"{BACK}[zookeeper-wiped]",
        (
            f"{ROOM}.blocking.meeting",
            "        over = connect.last_zxid_seen > 0 and boottime() - self._since > session\n",
            "        over = False\n",
        ),
    ),
    bug(
        "zookeeper: a client continues a session that no server has accepted for a long time",
        f"{SET_BACK}[sync]",
        (
            f"{ROOM}.blocking.meeting",
            "        if over and answer[0].time_out > 0:\n",
            "        if False:\n",
        ),
    ),
    bug(
        "zookeeper: a session outlives the event loop that renews it",
        LEFT_OPEN,
        (
            f"{ROOM}.blocking.driver",
            "user.silence() > lease_of(self.granted or self._settings.session)",
            "user.silence() < 0",
        ),
    ),
    bug(
        "zookeeper: the threads of a session outlive it",
        LEFT_OPEN,
        (
            f"{ROOM}.blocking.driver",
            "            if self._let_go:\n                self._clear_away()\n",
            "",
        ),
    ),
    bug(
        "zookeeper: a session outlives its client",
        LEFT_OPEN,
        (
            f"{ROOM}.blocking.driver",
            "        self._user = ref(user)\n",
            "        self._user = lambda: user\n",
        ),
    ),
    bug(
        "zookeeper: a session shorter than requested counts as a long one",
        SESSION,
        (
            f"{ROOM}.blocking.driver",
            "        if seconds < self._settings.session - 0.001:\n",
            "        if False:\n",
        ),
    ),
    bug(
        "zookeeper: a waiter reads all claims ahead of it",
        DEAD,
        ("holdfast.stores.zookeeper.line", "WATCHED_MAX = 8", "WATCHED_MAX = 1_000_000"),
        (
            "holdfast.stores.zookeeper.line",
            "        if not fits(spec.capacity, used, weight):\n            break\n    nodes",
            "    nodes",
        ),
    ),
    bug(
        "zookeeper: a try reads all claims ahead of it",
        DEAD,
        (
            "holdfast.stores.zookeeper.standing",
            "nodes = [one for one in block.nodes if one.kind is Kind.RWLOCK and one.weight > 1]",
            "nodes = list(seen.ahead)",
        ),
    ),
    bug(
        "zookeeper: an inspection requests a session once for each claim in a line",
        DEAD,
        (
            "holdfast.stores.zookeeper.looking",
            "sessions = sorted({got.stat.session for _, got in here})",
            "sessions = sorted(got.stat.session for _, got in here)",
        ),
    ),
]
