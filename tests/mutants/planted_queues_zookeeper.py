"""Bugs planted into the queues of ZooKeeper, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

ROOM = "holdfast.stores.zookeeper.queues"
HERE = "tests/stores/zookeeper/test_queues.py"
LOST = "tests/stores/zookeeper/test_queue_lost.py"
HALF = f"{HERE}::test_"
SESSION = f"{LOST}::test_the_delivery_of_a_lost_session_comes_again_and_its_ack_is_refused"
BOTH = "tests/stores/zookeeper/test_onward.py"
KIT = "tests/conformance/test_conformance.py::test_conforms[zookeeper-sync-queue"
CUT = f"{LOST}::test_each_verb_that_is_cut_off_is_carried_out_once"

QUEUES_ZOOKEEPER = [
    bug(
        "zookeeper queues: a late ack uses the mark of a later take",
        f"{SESSION}[group]",
        (
            f"{ROOM}.loans",
            "Check(self.space.place.entry(self.entry), self.version)",
            "Check(self.space.place.entry(self.entry))",
        ),
        # The test catches it only if the client hasn't noticed the end of its session by itself.
        seldom=True,
    ),
    bug(
        "zookeeper queues: a group is reported by its key, not by its name",
        f"{KIT}-a_group_may_be_called_anything_and_is_called_so_everywhere]",
        (f"{ROOM}.taking", "group_at(entry.group, note.group)", "entry.group"),
    ),
    bug(
        "zookeeper queues: an attempt whose worker died doesn't count",
        f"{SESSION}[plain]",
        (
            f"{ROOM}.taking",
            "Put(place.entry(entry), told, version)",
            "Put(place.entry(entry), told)",
        ),
    ),
    bug(
        "zookeeper queues: the clock of the client decides whether a job is due",
        f"{HERE}::test_a_client_that_has_a_wrong_idea_of_the_time_delivers_nothing_too_early[20.0]",
        (
            f"{ROOM}.taking",
            "if loan.taken < due:\n            await self._too_early(loan, state, due, stamp",
            "if loan.taken < 0:\n            await self._too_early(loan, state, due, stamp",
        ),
    ),
    bug(
        "zookeeper queues: a group that begins again is confused with its past",
        f"{HERE}::test_a_group_that_begins_again_is_not_confused_with_its_past",
        (f"{ROOM}.space", "        if birth != entry.birth:\n", "        if birth < 0:\n"),
    ),
    bug(
        "zookeeper queues: a put whose reply was lost is accepted twice",
        f"{CUT}[sync-reply]",
        (
            f"{ROOM}.putting",
            "        if lane.number == put.number:\n",
            "        if lane.number < 0:\n",
        ),
    ),
    bug(
        "zookeeper queues: a take whose reply was lost forgets its jobs",
        f"{CUT}[sync-reply]",
        (
            f"{ROOM}.taking",
            "            ours = isinstance(mark, Found) and",
            "            ours = isinstance(mark, No) and",
        ),
    ),
    bug(
        "zookeeper queues: a job wakes all waiters",
        f"{HERE}::test_a_job_wakes_exactly_one_waiter",
        (
            f"{ROOM}.idle",
            "zip(order, range(jobs), strict=False)",
            "zip(order, order, strict=False)",
        ),
    ),
    bug(
        "zookeeper queues: the interval is forgotten when a worker dies",
        f"{LOST}::test_the_interval_counts_from_when_a_death_is_noticed",
        (f"{ROOM}.lost", "            gap = state.gap\n", "            gap = 0\n"),
    ),
    bug(
        "zookeeper queues: ids are remembered permanently",
        f"{HERE}::test_an_id_past_its_dedup_window_is_removed_by_later_puts",
        (f"{ROOM}.remembered", "return int(window) if over else None", "return None"),
    ),
    bug(
        "zookeeper queues: a full queue accepts more jobs",
        f"{HERE}::test_a_full_queue_refuses_puts_until_there_is_room",
        (f"{ROOM}.putting", "        if here + jobs > self._depth:\n", "        if jobs < 0:\n"),
    ),
    bug(
        "zookeeper queues: a loop forgets a job that it took without a reply",
        f"{BOTH}::test_a_loop_that_is_cut_off_does_each_job_once[sync-reply-plain]",
        (f"{ROOM}.onward", "        taker.doubts[entry.node] = entry\n", ""),
    ),
    bug(
        "zookeeper queues: an ack counts though another worker took the next job first",
        f"{BOTH}::test_a_job_that_another_took_first_costs_the_ack_nothing[works]",
        (
            f"{ROOM}.onward",
            "                space.put_back(entry)\n            return False\n",
            "                space.put_back(entry)\n            return True\n",
        ),
    ),
    bug(
        "zookeeper queues: a loop wakes no waiter for the job that its ack makes due",
        f"{BOTH}::test_what_an_ack_makes_due_is_there_for_others_and_wakes_one",
        (
            f"{ROOM}.onward",
            "looks = [self._idle.look(space)] if ending.soon else []",
            "looks: list[Request] = []",
        ),
    ),
    bug(
        "zookeeper queues: an ack that ended with its session counts",
        f"{BOTH}::test_an_ack_that_may_have_ended_with_its_session_ends_no_loop[request]",
        (
            f"{ROOM}.settling",
            "        if self._why(loan) is Loss.SESSION:\n            text",
            "        if loan.dead:\n            text",
        ),
    ),
    bug(
        "zookeeper queues: a delay from a wrong clock holds back the whole group",
        f"{KIT}-a_job_behind_a_delayed_one_that_is_removed_is_due_at_once]",
        (
            f"{ROOM}.taking",
            'told = b"" if entry.attempts else State(rest=rest_at(entry, created)).data()',
            'told = b""',
        ),
    ),
    bug(
        "zookeeper queues: dead letters of a group come back in another order",
        f"{KIT}-dead_letters_come_back_in_the_order_in_which_they_died]",
        (f"{ROOM}.mending", "        rows.sort(key=lambda row: row.node)", "        pass"),
    ),
    bug(
        "zookeeper queues: a queue accepts jobs before all its folders exist",
        f"{HALF}a_queue_whose_making_was_cut_is_whole_once_something_was_put",
        (f"{ROOM}.names", '"ready", "plain"', '"lanes", "ready", "plain"'),
        (f"{ROOM}.names", '"pulse", "lanes"', '"pulse"'),
    ),
    bug(
        "zookeeper queues: a removed folder is never made again",
        f"{HALF}a_job_is_settled_though_a_folder_of_its_queue_was_removed[None]",
        (
            f"{ROOM}.settling",
            "            await self._talk.make(space.place, until)\n",
            "            pass\n",
        ),
    ),
    bug(
        "zookeeper queues: the settle of a removed job is repeated without a limit",
        f"{HALF}the_next_job_follows_one_that_was_removed_while_it_was_done[g]",
        (f"{ROOM}.settling", "lost.path == loan.job:", "lost.path == loan.mark:"),
    ),
    bug(
        "zookeeper queues: a taker that is woken before it watches its node sleeps on",
        f"{HERE}::test_a_taker_woken_before_its_watch_misses_no_other_wake_up",
        (f"{ROOM}.idle", "                bell.set()\n", "                pass\n"),
    ),
    bug(
        "zookeeper queues: a waiter of a closing client is woken until its session ends",
        f"{HERE}::test_a_client_that_closes_takes_its_waiters_out_of_the_queue_before_its_session"
        "_ends",
        (f"{ROOM}.settling", "asked = [*self._idle.leave(take), self._idle", "asked = [self._idle"),
    ),
]
