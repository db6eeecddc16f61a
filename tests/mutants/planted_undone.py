"""Bugs planted into the undo of requests that are under way, and the test that must catch each."""

from __future__ import annotations

from . import planted_mysql, planted_postgres
from .bugs import bug
from .planted_queues_redis import lua

KIT = "tests/conformance/test_conformance.py::test_conforms"
ADOPTION = "lock-an_adoption_that_comes_after_its_undo_takes_nothing"
PASSED_ON = "queue-who_is_woken_and_gives_up_passes_it_on"
NOT_WOKEN = "queue-who_has_given_up_is_not_woken_in_place_of_one_who_waits"
GIVEN_BACK = "tests/core/test_given_back.py"
ADOPT = "holdfast.core.adopt"
JOBS = "holdfast.stores.memory.jobs"
SQLITE = "holdfast.stores.sqlite.blocking"
POKES = (
    "tests/stores/sqlite/test_queues_waiting.py"
    "::test_a_waiter_is_woken_although_its_wake_up_is_interrupted"
)
LEFT = "tests/core/test_keeper_undo.py::test_what_"
AMID = "tests/core/test_closed_amid.py"
GETS = f"{AMID}::test_a_grant_to_a_client_that_closes_is_released"
GIVES = f"{AMID}::test_a_release_during_the_close_takes_effect"
SENDS = f"{AMID}::test_nothing_is_sent_for_a_client_that_closes_just_before"
AGAIN = f"{AMID}::test_nothing_is_sent_again_for_a_client_that_closes_meanwhile"
WAITS = f"{AMID}::test_a_close_waits_for_a_settle_that_is_under_way"
CLAIMS = "holdfast.core.claims"
CLOSES = "holdfast.core.closing"
COMPUTING = "holdfast.core.guard.computing"
TOGETHER = "holdfast.core.together"
TAKING = "holdfast.core.queue.taking"
NOTED = "ctx.under_way[self] = self.undos"
GIVING = "ctx.under_way[lease] = lease.again"

UNDONE = [
    bug(
        "a hold whose claim entered again is renewed",
        "tests/core/test_entered_again.py::test_a_renewal_and_an_extension_find_it_lost[renewal]",
        (
            "holdfast.core.keeper",
            "            if answer.fence != lease.fence:",
            "            if False:",
        ),
    ),
    bug(
        "zookeeper: an interrupted take forgets the job that it got",
        "tests/stores/zookeeper/test_queue_lost.py"
        "::test_a_take_that_is_interrupted_leaves_its_job_to_the_next_one",
        (
            "holdfast.stores.zookeeper.queues.taking",
            "        if len(answers) > 2:\n",
            "        taker.doubts.pop(entry.node, None)\n        if len(answers) > 2:\n",
        ),
    ),
    bug(
        "an interrupt leaves a bell locked",
        "tests/core/test_bell.py::test_an_interrupt_inside_a_bell_leaves_it_usable",
        (
            "holdfast.runtime.blocking",
            "class BlockingRuntime:\n",
            "Bell = threading.Event\n\n\nclass BlockingRuntime:\n",
        ),
    ),
    bug(
        "postgres: an interrupted waiter blocks the others from listening",
        "tests/stores/postgres/test_ending.py"
        "::test_an_interrupt_of_one_that_waits_keeps_no_other_from_listening",
        (
            "holdfast.stores.postgres.blocking.ear",
            "            box.sleeps = False\n            self._reading.leave(box)\n",
            "            box.sleeps = False\n",
        ),
    ),
    bug(
        "sqlite, asyncio: an abandoned request is carried out late",
        "tests/stores/sqlite/test_loop.py::test_abandoned_requests_are_skipped_unless_they_release",
        ("holdfast.stores.sqlite.aio.loop", " in LEFT_OUT:", " == LEFT_OUT:"),
    ),
    bug(
        "sqlite, asyncio: an abandoned undo is left out",
        "tests/stores/sqlite/test_loop.py::test_abandoned_requests_are_skipped_unless_they_release",
        (
            "holdfast.stores.sqlite.aio.loop",
            'if self.answer.done() and getattr(self.work, "__name__", "") in LEFT_OUT:',
            "if self.answer.done():",
        ),
    ),
    bug(
        "sqlite: an interrupted wake-up is forgotten",
        POKES,
        (f"{SQLITE}.way", "one = self._outbox[0]\n", "one = self._outbox.popleft()\n"),
        (f"{SQLITE}.way", "                self._outbox.remove(one)\n", ""),
    ),
    bug(
        "sqlite: an interrupted wake-up removes its waiter",
        POKES,
        (
            f"{SQLITE}.ears",
            "            self._link(file)\n            raise\n",
            "            raise\n",
        ),
    ),
    bug(
        "an undo is tried for no longer than the shorter lease",
        f"{LEFT}a_renewal_left_that_overtook_a_shorter_lease_is_withdrawn",
        ("holdfast.core.lease", "self.suspect, self.longest_asked)", "self.suspect, self.ttl)"),
    ),
    bug(
        "a longer lease without a confirmation is left to expire",
        "tests/core/test_keeper_undo.py::"
        "test_a_claim_left_by_an_unconfirmed_longer_lease_is_withdrawn",
        (
            "holdfast.core.hold",
            "        lease.longest_asked = max(lease.longest_asked, length)\n",
            "",
        ),
    ),
    bug(
        "memory: a late adoption succeeds after its undo",
        f"{KIT}[memory-sync-{ADOPTION}]",
        (
            "holdfast.stores.memory.line",
            "if keep.new_id and cid != keep.new_id and",
            "if False and",
        ),
    ),
    bug(
        "sqlite: a late adoption succeeds after its undo",
        f"{KIT}[sqlite-sync-{ADOPTION}]",
        (f"{SQLITE}.lines", "if row.id != keep.new_id else None", "if False else None"),
    ),
    bug(
        "redis: a late adoption succeeds after its undo",
        f"{KIT}[redis-sync-{ADOPTION}]",
        lua("fresh ~= id and tombstone(fresh)", "false"),
    ),
    bug(
        "postgres: a late adoption succeeds after its undo",
        f"{KIT}[postgresql-sync-{ADOPTION}]",
        planted_postgres._instead(("IF p_new <> c.id AND l.tombs > now_us", "IF false")),
    ),
    bug(
        "mysql: a late adoption of a single claim succeeds after its undo",
        f"{KIT}[mysql-sync-{ADOPTION}]",
        planted_mysql._instead(("IF v_lone <> p_new THEN", "IF FALSE THEN")),
    ),
    bug(
        "mysql: a late adoption of one of many claims succeeds after its undo",
        f"{KIT}[mysql-sync-{ADOPTION}]",
        planted_mysql._instead(
            (
                "IF p_new IS NOT NULL THEN\n        CALL holdfast_tomb_3",
                "IF FALSE THEN\n        CALL holdfast_tomb_3",
            )
        ),
    ),
    bug(
        "an adoption that was not answered isn't undone",
        f"{GIVEN_BACK}::test_an_adoption_whose_answer_is_lost_leaves_nothing",
        (ADOPT, "                await ctx.undo(undo)\n", "                pass\n"),
    ),
    bug(
        "an adoption that a close interrupts isn't undone",
        f"{GIVEN_BACK}::test_an_adoption_interrupted_by_a_close_leaves_nothing",
        (ADOPT, "ctx.keeper.later(undo, ctx.now() + undo.ttl)", "pass"),
    ),
    bug(
        "the time limit of an undo doesn't grow with its attempts",
        "tests/core/test_keeper_limits.py"
        "::test_an_undo_for_which_the_server_takes_long_is_given_more_time_at_each_try",
        ("holdfast.core.undos", "max(UNDO_S, within)", "UNDO_S"),
    ),
    bug(
        "memory: an abandoned take keeps its wake-up",
        f"{KIT}[memory-sync-{PASSED_ON}]",
        (JOBS, "        if not (tracks or waited):\n", "        if False:\n"),
    ),
    bug(
        "memory: an abandoned take still waits",
        f"{KIT}[memory-sync-{NOT_WOKEN}]",
        (JOBS, "address is not None and not given_up:", "address is not None:"),
    ),
    bug(
        "sqlite: an abandoned take keeps its wake-up",
        f"{KIT}[sqlite-sync-{PASSED_ON}]",
        (
            f"{SQLITE}.queues.jobs",
            "        if not mine:  # it may",
            "        if False:  # it may",
        ),
    ),
    bug(
        "sqlite: an abandoned take still waits",
        f"{KIT}[sqlite-sync-{NOT_WOKEN}]",
        (
            f"{SQLITE}.queues.engine",
            "(taken.deliveries or jobs.given_up(take))",
            "taken.deliveries",
        ),
    ),
    bug(
        "sqlite: the file of a waiter exists before the waiter is registered",
        "tests/stores/sqlite/test_queues_waiting.py"
        "::test_a_wait_interrupted_at_its_beginning_leaves_no_waiter",
        (
            f"{SQLITE}.annex",
            (
                "            ear = self._ears[waiter] = files.ears.ear(topic, now, address, name)\n"
                "            files.ears.listen(ear)\n"
            ),
            (
                "            ear = files.ears.ear(topic, now, address, name)\n"
                "            files.ears.listen(ear)\n"
                "            self._ears[waiter] = ear\n"
            ),
        ),
    ),
    bug(
        "sqlite: a waiter is unregistered before its file is removed",
        "tests/stores/sqlite/test_queues_waiting.py"
        "::test_a_wait_interrupted_at_its_beginning_leaves_no_waiter",
        (
            f"{SQLITE}.annex",
            "        found = self._ears.get(waiter)\n        if found",
            "        found = self._ears.pop(waiter, None)\n        if found",
        ),
    ),
    bug(
        "redis: an abandoned take keeps its wake-up",
        f"{KIT}[redis-sync-{PASSED_ON}]",
        lua("if due == 0 and not waited then", "if false then"),
    ),
    bug(
        "redis: an abandoned take stays among the waiters",
        f"{KIT}[redis-sync-{NOT_WOKEN}]",
        lua("    call('ZREM', W, member)\n    waited = true\n", "    waited = true\n"),
    ),
    bug(
        "postgres: an abandoned take keeps its wake-up",
        f"{KIT}[postgresql-sync-{PASSED_ON}]",
        planted_postgres._instead(("IF many = 0 AND NOT waited AND EXISTS", "IF false AND EXISTS")),
    ),
    bug(
        "zookeeper: an abandoned take keeps its wake-up",
        f"{KIT}[zookeeper-sync-{PASSED_ON}]",
        (
            "holdfast.stores.zookeeper.queues.settling",
            "if not what:  # a wake-up",
            "if False:  # a poke",
        ),
    ),
    bug(
        "a close doesn't undo the requests that are under way",
        "tests/torture/test_overtaken.py::"
        "test_what_is_on_its_way_when_its_client_closes_leaves_nothing_behind[redis-aio-waiter]",
        (
            "holdfast.core.closing",
            "        for undos in under_way.values():\n",
            "        for undos in ():\n",
        ),
    ),
    # -- clients that close during a request -----------------------------------------------------
    bug(
        "a close leaves an acquire that is under way",
        f"{GETS}[lock-True]",
        (CLAIMS, f"        self.{NOTED}\n", ""),
    ),
    bug(
        "a close leaves an acquire of several names that is under way",
        f"{GETS}[several-True]",
        (TOGETHER, "    ctx.under_way[attempt] = lambda: _leaves(wanted)\n", ""),
    ),
    bug(
        "a close leaves an adoption that is under way",
        f"{GETS}[adopt-True]",
        (ADOPT, "    ctx.under_way[undo] = lambda: (undo,)\n", ""),
    ),
    bug(
        "a close leaves a take that is under way",
        f"{GETS}[take-True]",
        (TAKING, "        ctx.under_way[self] = lambda: (self._take,)\n", ""),
    ),
    bug(
        "a close leaves a requested refresh lease",
        f"{GETS}[guard-True]",
        (
            "holdfast.core.guard.refresh",
            "        ctx.under_way[self] = lambda: (abandon,)\n",
            "",
        ),
    ),
    bug(
        "a close leaves the refresh lease of a value that is being stored",
        f"{GIVES}[value-False]",
        (COMPUTING, "        ctx.under_way[self] = lambda: (lease.abandon(),)\n", ""),
    ),
    bug(
        "a refresh lease stays when a close refuses its value",
        f"{GIVES}[value-True]",
        (COMPUTING, "            ctx.keeper.later(lease.abandon(), lease.deadline)\n", ""),
    ),
    bug(
        "a close leaves the refresh lease of a failure that is being stored",
        f"{GIVES}[failure-False]",
        (COMPUTING, "        self._ctx.under_way[self] = lambda: (abandon,)\n", ""),
    ),
    bug(
        "a close leaves a release that is under way",
        f"{GIVES}[release-False]",
        ("holdfast.core.hold", f"                    {GIVING}\n", ""),
    ),
    bug(
        "a close leaves a release of several names that is under way",
        f"{GIVES}[release of several-False]",
        (TOGETHER, f"            {GIVING}\n", ""),
    ),
    bug(
        "a close leaves an undo that is under way",
        f"{GIVES}[undo-False]",
        ("holdfast.core.context", "        self.under_way[undo] = lambda: (undo,)\n", ""),
    ),
    bug(
        "a close leaves a release that the renewer is sending",
        f"{GIVES}[release by the keeper-False]",
        (
            "holdfast.core.undos",
            "        return self._due[0][2:]\n",
            "        return heapq.heappop(self._due)[2:]\n",
        ),
        (
            "holdfast.core.undos",
            "            heapq.heappop(self._due)  # not",
            "            pass  # not",
        ),
    ),
    bug(
        "a close collects the requests under way only at its start",
        f"{GIVES}[release-True]",
        (CLOSES, "        under_way.update(ctx.under_way)\n", ""),
    ),
    bug(
        "a close collects the requests under way only at its end",
        f"{AMID}::test_a_grant_that_arrives_during_the_close_is_released[adopt]",
        (CLOSES, "        under_way = dict(ctx.under_way)\n", "        under_way = {}\n"),
    ),
    bug(
        "a release that a close overtakes counts as a loss",
        f"{AMID}::test_a_release_that_a_close_overtakes_is_no_loss[release]",
        ("holdfast.core.lease", "        self.unheard = True\n", ""),
    ),
    bug(
        "a close waits for no settle",
        f"{WAITS}[ack]",
        (CLOSES, "        while ctx.settling and", "        while False and"),
    ),
    bug(
        "a settle isn't registered for a close",
        f"{WAITS}[ack and take]",
        ("holdfast.core.queue.settling", "                ctx.settling.add(self)\n", ""),
    ),
    bug(
        "an acquire is sent after a close",
        f"{SENDS}[lock]",
        (CLAIMS, "        if self.ctx.closed:  # a join", "        if False:  # a join"),
    ),
    bug(
        "several names are acquired after a close",
        f"{SENDS}[several]",
        (TOGETHER, "        ctx.require_open()\n        sent", "        sent"),
    ),
    bug(
        "an adoption is sent after a close",
        f"{SENDS}[adopt]",
        (ADOPT, "        ctx.require_open()\n", ""),
    ),
    bug(
        "a take is sent after a close",
        f"{SENDS}[take]",
        (
            TAKING,
            "        ctx.require_open()\n        take = self._take\n",
            "        take = self._take\n",
        ),
    ),
    bug(
        "a request is repeated after a close",
        f"{AGAIN}[adopt]",
        (
            "holdfast.core.context",
            "attempt, until, failure)\n                self.require_open()\n",
            "attempt, until, failure)\n",
        ),
    ),
]
