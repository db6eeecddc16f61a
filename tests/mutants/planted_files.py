"""Bugs planted into the embedded store, ZooKeeper and the commands.

Each names the test that must catch it."""

from __future__ import annotations

from .bugs import bug

FILES = [
    bug(
        "a client that is out of file descriptors assumes a reboot",
        (
            "tests/stores/sqlite/test_few_descriptors.py"
            "::test_a_client_with_too_few_descriptors_takes_nothing[sync]"
        ),
        (
            "holdfast.stores.sqlite.blocking.header",
            "    except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):\n",
            "    except (OSError, ValueError):\n",
        ),
        commands=True,
    ),
    bug(
        "one verb drops all dead waiters of a line",
        (
            "tests/stores/sqlite/test_dead_waiters.py"
            "::test_verbs_are_bounded_and_the_living_served_behind_thousands_of_"
            "dead[silent-1]"
        ),
        (
            "holdfast.stores.sqlite.blocking.line",
            (
                "                if self.steps <= 0:\n"
                "                    return\n"
                "                self._bury("
            ),
            "                self._bury(",
        ),
    ),
    bug(
        "one verb drops all dead waiters ahead of a waiter",
        (
            "tests/stores/sqlite/test_dead_waiters.py"
            "::test_verbs_are_bounded_and_the_living_served_behind_thousands_of_"
            "dead[killed-1]"
        ),
        (
            "holdfast.stores.sqlite.blocking.line",
            "not self.is_dead(ahead.session) or self.steps <= 0:\n",
            "not self.is_dead(ahead.session):\n",
        ),
    ),
    bug(
        "a waiter behind dead waiters polls only after a second",
        (
            "tests/stores/sqlite/test_dead_waiters.py"
            "::test_verbs_are_bounded_and_the_living_served_behind_thousands_of_"
            "dead[silent-1]"
        ),
        (
            "holdfast.stores.sqlite.blocking.lines",
            "        if line.steps <= 0:\n",
            "        if False:\n",
        ),
    ),
    bug(
        "one verb clears away all that a dead process left in a line",
        (
            "tests/stores/sqlite/test_dead_waiters.py"
            "::test_what_a_dead_process_left_is_cleared_away_in_parts"
        ),
        (
            "holdfast.stores.sqlite.blocking.lines",
            "        left = STEPS\n",
            "        left = 10**9\n",
        ),
    ),
    bug(
        "a store thread that could not begin is never started again",
        (
            "tests/core/test_thread_start.py"
            "::test_an_event_loop_continues_when_the_store_thread_cannot_start"
        ),
        (
            "holdfast.stores.sqlite.aio.loop",
            "        _working[thread] = self.jobs\n",
            ("        _working[thread] = self.jobs\n        self.thread = thread\n"),
        ),
    ),
    bug(
        "the command of a stopped holder process outlives its lease",
        (
            "tests/cli/test_redis.py"
            "::test_a_stopped_holder_process_ends_its_command_before_the_next_grant"
        ),
        ("holdfast.cli.run", "            self._silent(child)\n", "            pass\n"),
        seldom=True,
        commands=True,
    ),
    bug(
        "threads read while another thread forks",
        (
            "tests/stores/sqlite/test_guards_reading.py"
            "::test_no_thread_is_inside_sqlite_during_a_fork"
        ),
        (
            "holdfast.stores.sqlite.blocking.values.reading",
            "            if forking():  # checked",
            "            if False:  # checked",
        ),
        (
            "holdfast.stores.sqlite.blocking.values.reading",
            "not readers or forking():",
            "not readers:",
        ),
    ),
    bug(
        "a former holder of the refresh lease stores a value",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[sqlite-sync-guard-a_late_copy_of_a_request_brings_no_duty_"
            "back]"
        ),
        (
            "holdfast.stores.sqlite.blocking.values.values",
            "if duty.id != finish.id or duty.fence != finish.fence:",
            "if duty.id != finish.id:",
        ),
    ),
    bug(
        "a job that can't be started ends the other running jobs",
        (
            "tests/cli/test_queue_work.py"
            "::test_a_job_that_cannot_be_started_is_answered_alone_and_named"
        ),
        (
            "holdfast.cli.queue.nursery",
            "        except OSError as wrong:  # no space",
            "        except BlockingIOError as wrong:  # no space",
        ),
        commands=True,
    ),
    bug(
        "a group behind a dead letter isn't shown as waiting",
        (
            "tests/conformance/test_conformance.py"
            "::test_conforms[zookeeper-sync-queue-a_group_that_a_dead_letter_holds_"
            "back_is_seen_to_wait]"
        ),
        (
            "holdfast.stores.zookeeper.queues.mending",
            "        behind = [one for one in heads if one.group and one not in lone]\n",
            (
                "        behind = [\n"
                "            one for one in heads\n"
                "            if one.group and one not in lone and not one.blocked\n"
                "        ]\n"
            ),
        ),
    ),
    bug(
        "verbs of the embedded store run without locking the file mutex",
        (
            "tests/stores/sqlite/test_only_inside.py"
            "::test_no_commit_or_checkpoint_happens_outside_the_file_mutex"
        ),
        (
            "holdfast.stores.sqlite.blocking.way",
            "flock(files.gate.held, TRY)  # A second time",
            "flock(files.gate.held, LOCK_UN)  # A second time",
        ),
    ),
    bug(
        "a committed verb of a queue is repeated if the file mutex was deleted",
        (
            "tests/stores/sqlite/test_gate_deleted.py"
            "::test_a_commit_while_the_file_mutex_was_deleted_is_reported[ack]"
        ),
        (
            "holdfast.stores.sqlite.blocking.queues.engine",
            "        if files.replaced():\n",
            "        if files.moved():\n",
        ),
    ),
    bug(
        "zookeeper queues: a late ack uses the mark of a later take",
        (
            "tests/stores/zookeeper/test_queue_lost.py"
            "::test_the_delivery_of_a_lost_session_comes_again_and_its_ack_is_"
            "refused[group]"
        ),
        (
            "holdfast.stores.zookeeper.queues.loans",
            "Check(self.space.place.entry(self.entry), self.version)",
            "Check(self.space.place.entry(self.entry))",
        ),
        seldom=True,
    ),
    bug(
        "zookeeper queues: a put whose reply was lost is accepted twice",
        (
            "tests/stores/zookeeper/test_queue_lost.py"
            "::test_each_verb_that_is_cut_off_is_carried_out_once[sync-reply]"
        ),
        (
            "holdfast.stores.zookeeper.queues.putting",
            "        if lane.number == put.number:\n",
            "        if lane.number < 0:\n",
        ),
    ),
    bug(
        "zookeeper, simple: a release deletes the node of a client that only created it",
        ("tests/stores/zookeeper/test_simple.py::test_a_late_release_does_not_end_a_later_hold"),
        (
            "holdfast.stores.zookeeper.simple",
            "Delete(mine.folder, _WRITTEN)",
            "Delete(mine.folder)",
        ),
    ),
    bug(
        "zookeeper: an answered read counts as a renewal",
        (
            "tests/stores/zookeeper/test_lost.py"
            "::test_answered_reads_and_pings_extend_no_lease[sync]"
        ),
        (
            "holdfast.stores.zookeeper.keeping",
            "await self._port.ask([write, *lists], until)\n",
            "await self._port.ask([Look(parts[0].path), *lists], until)\n",
        ),
    ),
    bug(
        "zookeeper: a claim that was cancelled before its node was known is forgotten",
        (
            "tests/stores/zookeeper/test_conforms.py"
            "::test_what_is_lost_on_the_way_leaves_no_node_behind[kazoo-aio-join-a_"
            "late_reply-cancelled]"
        ),
        (
            "holdfast.stores.zookeeper.ending",
            "if mine.void or not (mine.path or await self._find(mine, until)):\n",
            "if not mine.path:\n",
        ),
    ),
    bug(
        "zookeeper: a waiter watches the first claim ahead of it, not the last",
        (
            "tests/stores/zookeeper/test_line.py"
            "::test_a_lock_watches_its_predecessor_and_a_reader_the_last_writer"
        ),
        (
            "holdfast.stores.zookeeper.line",
            "key=lambda at: (seen.weights[at], at)",
            "key=lambda at: (seen.weights[at], -at)",
        ),
    ),
    bug(
        "the command that is proposed for a group's folder changes an existing folder",
        ("tests/stores/sqlite/test_place.py::test_the_remedy_changes_nothing_that_is_there[link]"),
        (
            "holdfast.stores.sqlite.blocking.place",
            'alone = f"mkdir -m 700 {quoted}',
            "alone = f\"install -d -m 700 {os.path.join(folder, 'holdfast')}",
        ),
    ),
    bug(
        "a session's name is used as a path",
        "tests/stores/sqlite/test_neighbours.py::test_a_session_is_no_path",
        (
            "holdfast.stores.sqlite.blocking.folder",
            "    return isinstance(name, str) and _SESSION(name) is not None\n",
            "    return isinstance(name, str)\n",
        ),
    ),
    bug(
        "a socket gets its mode through its path",
        (
            "tests/stores/sqlite/test_neighbours.py"
            "::test_a_socket_replaced_by_a_link_changes_no_file_mode"
        ),
        (
            "holdfast.stores.sqlite.blocking.wake",
            "                admit(self._there.fd, address, self.place.file_mode)\n",
            '                os.chmod(f"{self.folder}/{address}", self.place.file_mode)\n',
        ),
    ),
    bug(
        "a folder that other users can read is locked for opening",
        (
            "tests/stores/sqlite/test_neighbours.py"
            "::test_a_user_who_can_only_read_the_folder_blocks_no_client"
        ),
        (
            "holdfast.stores.sqlite.blocking.opening",
            'path = place.database + "-opening" if others_read(place) else folder\n',
            "path = folder\n",
        ),
    ),
    bug(
        "a table that was cut is trusted",
        "tests/stores/sqlite/test_damage.py::test_a_table_of_another_size_is_damaged",
        (
            "holdfast.stores.sqlite.blocking.lone",
            "                    os.pwrite(fd, bytes(8), 0)\n",
            "",
        ),
    ),
    bug(
        "impossible tickets are given",
        (
            "tests/stores/sqlite/test_damage.py"
            "::test_a_damaged_word_of_the_file_mutex_grants_nothing_next_to_a_holder"
        ),
        (
            "holdfast.stores.sqlite.blocking.header",
            "        if not limit <= following + SPAN <= TICKET_MAX or not following:\n",
            "        if False:\n",
        ),
    ),
    bug(
        "every session that was checked is kept open",
        (
            "tests/stores/sqlite/test_damage.py"
            "::test_a_hundred_clients_of_a_process_need_few_descriptors"
        ),
        ("holdfast.stores.sqlite.blocking.session", "CACHE_MAX = 2\n", "CACHE_MAX = 128\n"),
    ),
    bug(
        "a call from a signal handler is tried again inside the file mutex",
        ("tests/stores/sqlite/test_gate.py::test_a_signal_handler_that_calls_back_in_is_refused"),
        (
            "holdfast.stores.sqlite.blocking.way",
            ("        if self.inside == me:\n            raise NotSupported(REENTERED)\n"),
            ("        if self.inside == me:\n            raise StoreUnavailable(REENTERED)\n"),
        ),
    ),
]
