"""Bugs planted into the embedded store and the runtimes, and the test that must catch each.

Real lock libraries contain such mistakes, or one changed word in holdfast would make one. The
tests use real files, threads, forks and signals. ``tests/mutants/simulated.py`` has the bugs of the
core that virtual time can show.
"""

from __future__ import annotations

from .bugs import bug
from .planted_core import CORE
from .planted_disk import DISKS
from .planted_elsewhere import ELSEWHERE
from .planted_neighbours import NEIGHBOURS
from .planted_stores import STORES

BLOCKING = "holdfast.stores.sqlite.blocking"
SESSION = f"{BLOCKING}.session"
ENTRY = f"{BLOCKING}.entry"
WAY = f"{BLOCKING}.way"
ENGINE = f"{BLOCKING}.engine"
GATE = f"{BLOCKING}.gate"
HEADER = f"{BLOCKING}.header"
PROMISES = "            self._promised = files, files.header.promise()\n"
LINE = f"{BLOCKING}.line"
LONE = f"{BLOCKING}.lone"
WAKE = f"{BLOCKING}.wake"
WORLD = f"{BLOCKING}.world"
WORKER = "holdfast.stores.sqlite.aio.loop"
CLAIMS = "holdfast.core.claims"
CONTEXT = "holdfast.core.context"
SEMAPHORE = "holdfast.core.semaphore"
TOGETHER = "holdfast.core.together"
MEMORY = "holdfast.stores.memory.line"
DOOR = "holdfast.core.door"
ADOPT = "holdfast.core.adopt"
HOLD = "holdfast.core.hold"
LEASE = "holdfast.core.lease"
AIO = "holdfast.runtime.aio"
THREADS = "holdfast.runtime.blocking"
FORK = "holdfast.runtime.fork"

STORE = "tests/stores/sqlite"
TORTURE = "tests/torture"
KIT = "tests/conformance/test_conformance.py::test_conforms"
ALL = "tests/core/test_together.py"

PLANTED = [
    # -- dead holders and sessions ---------------------------------------------------------
    bug(
        "a locked session counts as dead",
        f"{STORE}/test_death.py::test_a_stopped_process_is_not_dead[lock]",
        (
            SESSION,
            "    except OSError:\n        return False\n    flock(fd, LOCK_UN)",
            "    except OSError:\n        return True\n    flock(fd, LOCK_UN)",
        ),
    ),
    bug(
        "a session without a file counts as dead",
        f"{STORE}/test_world.py::test_a_session_that_is_missing_proves_nothing",
        (
            SESSION,
            "            return alarm is ENDED\n",
            "            return True\n",
        ),
    ),
    bug(
        "a refused wake-up counts as the death of its waiter",
        f"{STORE}/test_death.py::test_an_unread_push_costs_only_time",
        (ENTRY, " or not others.exists(session) or not others.dead(session):", ":"),
    ),
    bug(
        "a waiter doesn't watch the holder's session",
        f"{STORE}/test_death.py::test_several_deaths_in_a_row_delay_no_waiter",
        (
            f"{BLOCKING}.port",
            "self.boxes.wait(claim.id, self.engine.alarm, waiting.watch, seconds)",
            "self.boxes.wait(claim.id, self.engine.alarm, (), seconds)",
        ),
    ),
    bug(
        "a child keeps its parent's session alive",
        f"{STORE}/test_death.py::test_a_living_child_keeps_nothing_of_its_dead_parent[lock]",
        (
            ENTRY,
            "                session.end(unlink=False)\n        self.mail.forked()",
            "                setattr(Entry, session.name, session)\n        self.mail.forked()",
        ),
    ),
    bug(
        "a child keeps the file mutex of its dead parent locked",
        f"{STORE}/test_death.py::test_a_living_child_does_not_keep_its_dead_parents_file_mutex",
        (
            GATE,
            "        fds = [self.fd, porter.fd if porter else -1]\n",
            "        fds: list[int] = []\n",
        ),
    ),
    # -- fences ----------------------------------------------------------------------------
    bug(
        "tickets are counted from the claims in the file",
        f"{TORTURE}/test_threads.py::test_threads_on_one_name_hold_it_one_after_the_other",
        (
            ENGINE,
            "            ticket, ttl = words[NEXT], claim.spec.ttl\n",
            (
                "            run = files.cursor.execute\n"
                "            last = run('SELECT max(ticket) FROM claims').fetchone()[0]\n"
                "            ticket, ttl = (last or 0) + 1, claim.spec.ttl\n"
            ),
        ),
        seldom=True,  # its threads wait a minute for one another
    ),
    bug(
        "a block of tickets is used before it is on the disk",
        f"{STORE}/test_fences.py::test_a_limit_counts_only_when_it_is_on_the_disk",
        (
            HEADER,
            "        limit = self.promise()\n        self.sync()\n",
            "        limit = self.promise()\n",
        ),
    ),
    bug(
        "the next block of tickets counts before it is on the disk",
        f"{STORE}/test_fences.py::test_no_verb_waits_while_the_next_tickets_are_written_to_disk",
        (ENTRY, PROMISES, "            files.reserved(files.header.promise())\n"),
    ),
    bug(
        "verbs wait at the file mutex for the next block of tickets",
        f"{STORE}/test_fences.py::test_no_verb_waits_while_the_next_tickets_are_written_to_disk",
        (ENTRY, PROMISES, "            files.reserve()\n"),
    ),
    # -- the file mutex --------------------------------------------------------------------
    bug(
        "leave doesn't lock the file mutex",
        f"{TORTURE}/test_gate.py::test_no_verb_passes_a_locked_file_mutex",
        (
            ENGINE,
            "        left: bool = self._inside(within, self._roomy, self._leave, leave)\n",
            (
                "        files = self._files\n"
                "        assert files is not None\n"
                "        left = self._leave(files, files.floats[12], leave)\n"
            ),
        ),
    ),
    bug(
        "a waiter that gave up still gets the file mutex",
        f"{STORE}/test_gate.py::test_a_waiter_that_gave_up_leaves_the_file_mutex_to_others",
        (
            GATE,
            "        except IndexError:\n            return False\n        self.ready.release()",
            "        except IndexError:\n            return True\n        self.ready.release()",
        ),
    ),
    bug(
        "an interrupt in a verb leaves its transaction open",
        f"{STORE}/test_death_in_verbs.py"
        "::test_an_interrupt_at_any_point_leaves_nothing_locked_and_nothing_taken[lock]",
        (
            WAY,
            "                    if opened.connection.in_transaction:\n",
            "                    if False:\n",
        ),
    ),
    # -- lines -----------------------------------------------------------------------------
    bug(
        "keep renews without comparing the id",
        f"{STORE}/test_meaning.py::test_random_verbs_are_answered_as_the_memory_store_answers_them",
        (
            LONE,
            "            return False\n        expires = self.expires[slot]",
            "            pass\n        expires = self.expires[slot]",
        ),
    ),
    bug(
        "leave does not compare the id",
        f"{STORE}/test_meaning.py::test_random_verbs_are_answered_as_the_memory_store_answers_them",
        (
            LONE,
            "            return False\n        self.tickets[slot] = 0\n        return True",
            "            pass\n        self.tickets[slot] = 0\n        return True",
        ),
    ),
    bug(
        "a grant wakes no waiter",
        f"{STORE}/test_death.py::test_a_wake_up_wakes_only_its_claim",
        (LINE, "            if row.address is not None:\n", "            if False:\n"),
    ),
    bug(
        "a wake-up for another claim is trusted",
        f"{STORE}/test_death.py::test_a_wake_up_for_another_claim_grants_nothing",
        (WAKE, "                if found == claim_id:\n", "                if found:\n"),
    ),
    bug(
        "a late wake-up for an earlier ticket is trusted",
        "tests/core/test_claims.py::test_a_wake_up_for_an_earlier_ticket_of_the_same_id_is_ignored",
        (
            CLAIMS,
            "if push is not None and push.fence == waiting.ticket and trusted:",
            "if push is not None and trusted:",
        ),
    ),
    # -- generations -----------------------------------------------------------------------
    bug(
        "a client doesn't compare its generation with the one in the file mutex",
        f"{STORE}/test_world.py::test_a_newcomer_after_a_deletion_waits_for_the_old_holders",
        (WAY, "            if files.words[WORLD] != files.world:\n", "            if False:\n"),
    ),
    bug(
        "after a deletion the next claim is granted immediately",
        f"{STORE}/test_world.py::test_a_newcomer_after_a_deletion_waits_for_the_old_holders",
        (
            WORLD,
            "    header.floats[QUIET] = max(header.floats[QUIET], header.floats[LATEST])\n",
            "",
        ),
    ),
    bug(
        "a second deletion makes the store forget the holders from before the first one",
        f"{STORE}/test_world.py::test_a_second_deletion_does_not_let_the_old_holders_be_forgotten",
        (WORLD, ', float(database.meta("quiet") or 0)]', "]"),
    ),
    bug(
        "two clients open the files at the same time through different file mutexes",
        f"{STORE}/test_world.py::test_files_are_opened_by_one_client_at_a_time_for_any_file_mutex",
        (ENTRY, "            with opening:\n", "            if True:\n"),
    ),
    bug(
        "files are opened through a file mutex that was deleted",
        f"{STORE}/test_world.py::test_files_are_opened_by_one_client_at_a_time_for_any_file_mutex",
        (ENTRY, "                if self._gate.moved():\n", "                if False:\n"),
    ),
    # -- asyncio ---------------------------------------------------------------------------
    bug(
        "the worker carries out the last request first",
        f"{STORE}/test_loop.py::test_requests_that_queue_up_are_carried_out_in_the_order_of_asking",
        (WORKER, "from queue import SimpleQueue\n", "from queue import LifoQueue as SimpleQueue\n"),
    ),
    bug(
        "a loop does not watch the holder's session",
        f"{STORE}/test_death.py"
        "::test_what_a_killed_process_had_is_free_long_before_its_lease_ends[lock-aio]",
        (WORKER, "                self._watch(loop, session, answer)\n", "                pass\n"),
    ),
    bug(
        "a cancelled acquire is not undone",
        f"{TORTURE}/test_cancel.py::test_a_cancellation_at_any_moment_before_the_reply_leaves_nothing",
        (
            CLAIMS,
            "await ctx.undo(attempt.leave(suspect=True), attempt.limit + GRACE_S)\n",
            "pass\n",
        ),
    ),
    # -- threads, tasks, forks -------------------------------------------------------------
    bug(
        "a child task inherits the reentry of its parent",
        f"{KIT}[memory-aio-reentrant-a_flow_that_was_started_inside_inherits_nothing]",
        (
            AIO,
            "        return asyncio.current_task() or threading.current_thread()\n",
            "        return threading.current_thread()\n",
        ),
    ),
    bug(
        "a child thread inherits the reentry of its parent",
        f"{KIT}[memory-sync-reentrant-a_flow_that_was_started_inside_inherits_nothing]",
        (
            THREADS,
            "        thread = threading.current_thread()\n",
            "        thread = threading.main_thread()\n",
        ),
    ),
    bug(
        "a child counts its parent's holds as its own",
        f"{KIT}[sqlite-sync-lock-the_child_of_a_fork_holds_nothing_and_frees_nothing]",
        (FORK, "    _epoch += 1\n", "    _epoch += 0\n"),
    ),
    # -- time ------------------------------------------------------------------------------
    bug(
        "a lease counts from the reply",
        f"{TORTURE}/test_clock.py::test_a_lease_counts_from_before_its_join_was_sent",
        (
            CLAIMS,
            "self.sent = self.heard = self.asked",
            "self.sent = self.heard = self.ctx.now()",
        ),
    ),
    bug(
        "a grant by wake-up lasts for the whole ttl",
        f"{TORTURE}/test_clock.py::test_a_hold_granted_by_a_push_lasts_for_the_rest_of_the_waiter_ttl",
        (
            CLAIMS,
            "return tuple.__new__(Held, (push.fence, ctx.store.patience))\n",
            "return tuple.__new__(Held, (push.fence, self.spec.ttl))\n",
        ),
    ),
    bug(
        "an expired deadline doesn't end a hold",
        f"{TORTURE}/test_clock.py::test_a_renewed_lease_counts_from_before_its_keep_was_sent",
        (
            LEASE,
            "        if self.reason is None and self.end is None and now >= self.deadline:\n",
            "        if False:\n",
        ),
    ),
    bug(
        "each of several undos gets the whole time limit",
        "tests/core/test_too_late.py::test_a_semaphore_that_would_be_resized_too_late_is_back_in_time",
        (
            CLAIMS,
            (
                "                self.withdrawn = not self.suspect"
                "  # it was not accepted: there is nothing to undo\n"
            ),
            "",
        ),
        (CONTEXT, "min(longest, until - self.now())", "longest"),
        (SEMAPHORE, "        if left <= 0:\n", "        if False:\n"),
    ),
    # -- a cluster -------------------------------------------------------------------------
    bug(
        "a channel that ends right after its subscription counts as subscribed",
        "tests/stores/redis/several/test_moves.py::"
        "test_a_channel_that_ends_as_it_begins_is_not_relied_on",
        (
            "holdfast.stores.redis.aio.shard",
            "        self._heard_of.add(bucket_in(address))\n",
            "        self._loop.call_soon(self._heard_of.add, bucket_in(address))\n",
        ),
        seldom=True,
    ),
    # -- several names -----------------------------------------------------------------------
    bug(
        "all() ignores tombstones",
        f"{ALL}::test_a_late_copy_finds_a_tombstone_and_enters_nothing",
        (
            MEMORY,
            "            if self.tombs.get(claim.id, _NO_TOMB)[0] > now:\n",
            "            if False:\n",
        ),
    ),
    bug(
        "all() withdraws its claims without tombstones",
        f"{ALL}::test_a_late_copy_finds_a_tombstone_and_enters_nothing",
        (
            TOGETHER,
            "Leave(one.spec.name, one.id, 0, suspect=True, ",
            "Leave(one.spec.name, one.id, 0, ",
        ),
    ),
    bug(
        "all() forgets an undo that failed",
        f"{ALL}::test_the_renewer_continues_a_failed_undo",
        (
            TOGETHER,
            "    for leave in left:\n        ctx.keeper.later(leave, ctx.now() + leave.ttl)\n",
            "",
        ),
    ),
    # -- Ctrl-C ----------------------------------------------------------------------------
    bug(
        "an interrupt between the grant and the body leaves the hold without an owner",
        f"{TORTURE}/test_interrupt.py::test_an_interrupt_at_each_point_in_turn_leaves_nothing[with_lock]",
        (
            "holdfast.core.lock",
            "            hold._abandon()\n            self._door.forget(entry)\n",
            "",
        ),
        full=True,
    ),
    bug(
        "the interrupted end of a with-block is not continued",
        f"{TORTURE}/test_interrupt.py::test_an_interrupt_at_each_point_in_turn_leaves_nothing[with_reentrant]",
        (DOOR, "                one.hold._cut(one.level)\n", "                pass\n"),
        (
            HOLD,
            "            self._cut(level)\n            raise\n\n    async def _leave_again",
            "            raise\n\n    async def _leave_again",
        ),
    ),
    bug(
        "an interrupted adoption is not undone",
        f"{TORTURE}/test_interrupt.py::test_an_interrupt_at_each_point_in_turn_leaves_nothing[adopted]",
        (
            ADOPT,
            "            await ctx.undo(undo)\n        raise\n",
            "            pass\n        raise\n",
        ),
    ),
    # -- the reason of a loss --------------------------------------------------------------
    bug(
        "a hold that max_hold ends is reported as expired if the store grants a bit less",
        "tests/core/test_renewal.py"
        "::test_max_hold_is_reported_although_the_store_grants_a_bit_less[14.0]",
        (LEASE, "if self.capped() or (self.cut and not self.failures):", "if self.capped():"),
    ),
]
PLANTED += STORES + NEIGHBOURS + DISKS + CORE + ELSEWHERE
