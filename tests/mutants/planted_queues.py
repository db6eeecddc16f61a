"""Bugs planted into serial queues: their core, and the verbs of the memory store."""

from __future__ import annotations

from .bugs import bug

QUEUE = "holdfast.core.queue.queue"
TAKING = "holdfast.core.queue.taking"
DELIVERY = "holdfast.core.queue.delivery"
SETTLING = "holdfast.core.queue.settling"
WORKER = "holdfast.core.queue.worker"
LEASE = "holdfast.core.queue.lease"
VALUES = "holdfast.core.values"
JOBS = "holdfast.stores.memory.jobs"

LOST = "tests/queues/test_lost_replies.py"
STRUCK = "tests/queues/test_interrupted.py"
LOANS = "tests/queues/test_delivery.py"
WORK = "tests/queues/test_worker.py"
DRAWN = "tests/core/test_values.py::test_only_a_payload_that_would_come_back_changed_is_refused"

#: The code that undoes an interrupted take.
UNDONE = (
    "                queues.unlisten(self._take)\n"
    "                await ctx.undo(self._take)\n"
    "                raise\n"
)
#: The code of a worker after a settle without a reply.
FAILED = (
    "                failures += 1\n"
    "                if failures == 1:\n"
    '                    log.warning("%r: %s'
)

QUEUES = [
    bug(
        "a settled delivery confirms every later settle",
        "tests/conformance/test_conformance.py::test_conforms[memory-aio-queue-"
        "what_is_settled_answers_yes_to_the_verb_that_settled_it_and_to_no_other]",
        (
            "holdfast.core.queue.delivery",
            "return self._kept and self._verdict is settle.verdict",
            "return self._kept",
        ),
    ),
    bug(
        "a put that is repeated is accepted again",
        f"{LOST}::test_a_put_whose_reply_is_lost_is_accepted_once[sync]",
        (JOBS, "        if put.number > number:\n", "        if put.number >= number:\n"),
    ),
    bug(
        "a copy of a put that comes late is accepted",
        f"{LOST}::test_a_late_copy_of_a_put_is_accepted_no_second_time[sync]",
        (JOBS, "        if put.number < number:\n", "        if put.number < 0:\n"),
    ),
    bug(
        "leftovers of a removed group end the group that came back",
        "tests/sim/test_queues.py"
        "::test_a_group_that_came_back_outlives_what_is_left_of_its_first_life",
        (JOBS, " and self.tracks.get(track.name) is track:\n", ":\n"),
    ),
    bug(
        "a repeated take takes another job",
        f"{LOST}::test_a_take_whose_reply_is_lost_gets_the_same_once[sync]",
        (JOBS, "        mine = self.taken.get(take.id)\n", "        mine = None\n"),
    ),
    bug(
        "a released take leaves no tombstone",
        f"{LOST}::test_a_take_without_a_reply_is_undone[sync]",
        (JOBS, "        self._bury(take.id, take.ttl, now)\n", ""),
    ),
    bug(
        "a settle forgets that its take was sent twice",
        f"{LOST}::test_a_late_copy_of_a_take_gets_nothing_when_its_jobs_are_settled[sync]",
        (LEASE, "self.ttl, self.suspect)", "self.ttl, False)"),
    ),
    bug(
        "a job is handed out after its lease has expired",
        f"{LOST}::test_a_take_that_is_answered_after_its_lease_is_not_handed_out[sync]",
        (QUEUE, "        if ctx.now() >= until or ctx.closed:\n", "        if ctx.closed:\n"),
    ),
    bug(
        "a repeated settle that finds nothing counts as a loss",
        f"{LOST}::test_a_settle_whose_reply_is_lost_counts_once[sync]",
        (
            SETTLING,
            "one._over(answer or (repeated and self._ctx.now() < lease.deadline), verdict)",
            "one._over(answer, verdict)",
        ),
    ),
    bug(
        "an ack compares only the number of the job",
        f"{LOST}::test_a_late_copy_of_an_extension_brings_no_expired_lease_back[sync]",
        (
            JOBS,
            "        for track in self.taken.get(asked.take, ()):\n",
            "        for track in [one for some in self.taken.values() for one in some]:\n",
        ),
    ),
    bug(
        "an extension can shorten a lease",
        f"{LOST}::test_an_extension_may_be_as_late_as_it_likes_but_never_shortens[sync]",
        (JOBS, "        if now + extend.ttl > loan.expires:\n", "        if extend.ttl:\n"),
    ),
    bug(
        "a cancelled take leaves its jobs delivered",
        f"{STRUCK}::test_a_take_that_is_cancelled_at_any_await_leaves_the_job_where_it_was",
        (
            TAKING,
            UNDONE,
            "                queues.unlisten(self._take)\n                raise\n",
        ),
    ),
    bug(
        "a client keeps a take that was cancelled while it waited",
        f"{STRUCK}::test_a_take_that_is_cancelled_while_it_waits_leaves_the_list",
        (
            TAKING,
            UNDONE,
            "                await ctx.undo(self._take)\n                raise\n",
        ),
    ),
    bug(
        "a cancelled ack is not carried out",
        f"{STRUCK}::test_a_settle_that_is_cancelled_at_any_await_is_carried_out[ack]",
        (
            DELIVERY,
            (
                "        self._ctx.keeper.later(settle, self._lease.deadline)\n"
                "        self._over(True, settle.verdict)\n"
            ),
            "        self._over(True, settle.verdict)\n",
        ),
    ),
    bug(
        "a cancelled take loses the ack that was sent with it",
        f"{STRUCK}::test_a_loop_that_is_cancelled_between_two_jobs_has_done_one_and_not_the_other",
        (TAKING, "            done.failed(failure, again=False)\n", ""),
    ),
    bug(
        "a loop whose ack got no reply counts its job as lost",
        f"{LOST}::test_a_loop_continues_after_a_lost_settle_and_take[sync-reply]",
        (TAKING, "            await done.run(again=True)\n", "            await done.run()\n"),
    ),
    bug(
        "a late copy of an ack and take gets a job",
        f"{LOST}::test_a_loop_continues_after_a_lost_settle_and_take[sync-reply]",
        (
            TAKING,
            "            self._suspect = True\n            await done.run",
            "            await done.run",
        ),
    ),
    bug(
        "a stopped worker doesn't settle its last job",
        f"{WORK}::test_stop_finishes_what_runs_and_takes_no_more[sync]",
        (WORKER, "        if last is not None:\n            await self._settle(*last)\n", ""),
    ),
    bug(
        "a cancelled body costs the job an attempt",
        f"{STRUCK}::test_a_body_that_is_cancelled_returns_its_job_and_one_that_fails_does_not",
        (
            DELIVERY,
            "        if self._ctx.runtime.interrupts(failure):\n",
            "        if False:\n",
        ),
    ),
    bug(
        "the producer of a put that was given up is used again",
        f"{STRUCK}::test_a_put_that_is_cancelled_is_accepted_once_or_not",
        (
            QUEUE,
            "        lane = self._lane()\n        lane.number += 1\n",
            (
                "        lane = self._lane()\n        self._lanes.append(lane)\n"
                "        lane.number += 1\n"
            ),
        ),
    ),
    bug(
        "a forked child uses the producer of its parent",
        f"{LOANS}::test_a_forked_child_has_its_own_producer",
        (QUEUE, "            if lane.epoch == ctx.epoch:\n", "            if lane.epoch >= 0:\n"),
    ),
    bug(
        "a forked child settles its parent's delivery",
        f"{LOANS}::test_a_forked_child_has_no_delivery_and_settles_nothing",
        (
            DELIVERY,
            "            if self._epoch != self._ctx.epoch:\n",
            "            if self._epoch < 0:\n",
        ),
    ),
    bug(
        "a closed client lets its deliveries expire, which costs an attempt",
        f"{LOANS}::test_closing_a_client_releases_its_deliveries[sync]",
        (LEASE, "        if reason is Loss.CLOSED:\n", "        if reason is Loss.BROKEN:\n"),
    ),
    bug(
        "a worker gives up a settle during a short outage of the store",
        f"{WORK}::test_what_was_done_while_the_store_was_away_is_not_done_again[sync-True]",
        (
            WORKER,
            FAILED,
            "                return\n" + FAILED,
        ),
    ),
    bug(
        "a worker ends when the store doesn't answer",
        f"{WORK}::test_a_worker_continues_after_an_outage_of_the_store[sync]",
        (WORKER, "                if self._queue._ctx.closed:\n", "                if failure:\n"),
    ),
    bug(
        "a stopped worker takes one more job",
        f"{WORK}::test_stop_finishes_what_runs_and_takes_no_more[sync]",
        (
            WORKER,
            "        while not self._stopping:\n",
            "        while not (self._stopping and self.done > 1):\n",
        ),
    ),
    bug(
        "groups are served by their length, not by their due time",
        f"{WORK}::test_no_hot_group_and_no_ungrouped_jobs_starve_the_others[sync]",
        (
            JOBS,
            "        track.place = (moment, next(self.ties))\n",
            "        track.place = (0.0, -len(track.rows))\n",
        ),
    ),
    bug(
        "ungrouped jobs are always served before groups",
        f"{WORK}::test_no_hot_group_and_no_ungrouped_jobs_starve_the_others[sync]",
        (JOBS, "                self.turn = 1 - lane\n", "                self.turn = PLAIN\n"),
    ),
    bug(
        "a job that was removed keeps its place in the order",
        f"{LOANS}::test_removed_jobs_block_no_other_jobs[sync]",
        (
            JOBS,
            "        track.place = None\n        if track.rows:\n",
            "        if track.rows:\n",
        ),
    ),
    bug(
        "a job whose worker dies counts as done",
        f"{LOANS}::test_a_forgotten_delivery_warns_and_comes_again[sync]",
        (JOBS, "            verdict = Verdict.RETRY\n", "            verdict = Verdict.ACK\n"),
    ),
    bug(
        "a delivery that is lost in its last attempt is tried once more",
        f"{LOANS}::test_a_delivery_that_is_lost_in_its_last_attempt_is_given_up[sync]",
        (
            LEASE,
            "Verdict.DEAD if self.last else Verdict.RETRY, reason=str(reason)",
            "Verdict.RETRY, reason=str(reason)",
        ),
    ),
    bug(
        "two workers run jobs of one group at the same time",
        "tests/conformance/test_queue_walk.py::test_each_answer_fits_what_was_done_before[memory-sync]",
        (JOBS, "        if self.loan is not None or not self.rows", "        if not self.rows"),
        (JOBS, "        if len(track.rows) == 1:\n", "        if track.rows:\n"),
    ),
    bug(
        "a key that isn't text comes back as text",
        f"{DRAWN}[payload]",
        (VALUES, "if type(key) not in keys:", "if type(key) not in keys | {int}:"),
    ),
    bug(
        "a subclass comes back as its base class",
        f"{DRAWN}[value]",
        (VALUES, "    elif kind not in _CERTAIN:\n", "    elif not issubclass(kind, int):\n"),
    ),
]
