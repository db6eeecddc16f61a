"""Bugs that other users of the files, or damage to them, show in the embedded store."""

from __future__ import annotations

from .bugs import bug

BLOCKING = "holdfast.stores.sqlite.blocking"
NEAR = "tests/stores/sqlite/test_neighbours.py"
LIES = f"{NEAR}::test_nothing_outside_the_folder_is_touched_whatever_lies_in_it"
DAMAGE = "tests/stores/sqlite/test_damage.py"

NEIGHBOURS = [
    bug(
        "the command that is proposed for a group's folder changes an existing folder",
        "tests/stores/sqlite/test_place.py::test_the_remedy_changes_nothing_that_is_there[link]",
        (
            "holdfast.stores.sqlite.blocking.place",
            'alone = f"mkdir -m 700 {quoted}',
            "alone = f\"install -d -m 700 {os.path.join(folder, 'holdfast')}",
        ),
    ),
    bug(
        "redis: a remedy makes a user with another name",
        "tests/stores/redis/test_complaints.py::"
        "test_the_remedy_grants_the_right_only_to_the_user_that_lacks_it"
        "[poor-ACL SETUSER poor +time]",
        (
            "holdfast.stores.redis.complaints",
            'return f"ACL SETUSER {user} {every}"',
            'return f"ACL SETUSER ... {every}"',
        ),
    ),
    bug(
        "postgres: a remedy names the wrong user",
        "tests/stores/postgres/test_complaints.py::"
        "test_what_gives_a_right_names_the_schema_and_the_user_of_the_url[42501]",
        (
            "holdfast.stores.postgres.complaints",
            'text.replace("{user}", identifier(settings.user))',
            'text.replace("{user}", "app")',
        ),
    ),
    bug(
        "a session's name is used as a path",
        f"{NEAR}::test_a_session_is_no_path",
        (
            f"{BLOCKING}.folder",
            "    return isinstance(name, str) and _SESSION(name) is not None\n",
            "    return isinstance(name, str)\n",
        ),
    ),
    bug(
        "a socket gets its mode through its path",
        f"{NEAR}::test_a_socket_replaced_by_a_link_changes_no_file_mode",
        (
            f"{BLOCKING}.wake",
            "                admit(self._there.fd, address, self.place.file_mode)\n",
            '                os.chmod(f"{self.folder}/{address}", self.place.file_mode)\n',
        ),
    ),
    bug(
        "a folder that other users can read is locked for opening",
        f"{NEAR}::test_a_user_who_can_only_read_the_folder_blocks_no_client",
        (
            f"{BLOCKING}.opening",
            'path = place.database + "-opening" if others_read(place) else folder\n',
            "path = folder\n",
        ),
    ),
    bug(
        "a database with a second name is accepted",
        f"{NEAR}::test_another_name_of_the_database_is_no_second_store",
        (f"{BLOCKING}.owned", "    if info.st_nlink > 1:\n", "    if info.st_nlink > 9:\n"),
    ),
    bug(
        "a group can write to a folder whose files belong to another group",
        f"{NEAR}::test_a_group_without_the_setgid_bit_is_refused",
        (
            f"{BLOCKING}.place",
            "    if info.st_mode & stat.S_IWGRP and not shared and not _private(info):\n",
            "    if False:\n",
        ),
    ),
    bug(
        "a journal next to the database is trusted",
        f"{NEAR}::test_a_foreign_rollback_journal_is_refused",
        (
            f"{BLOCKING}.owned",
            '    if os.path.lexists(path + "-journal"):\n',
            "    if False:\n",
        ),
    ),
    bug(
        "a wake-up follows a link",
        f"{NEAR}::test_a_wake_up_follows_no_link",
        (
            f"{BLOCKING}.wake",
            "            if self._wary:\n",
            "            if False:\n",
        ),
    ),
    bug(
        "a table that was cut is trusted",
        f"{DAMAGE}::test_a_table_of_another_size_is_damaged",
        (f"{BLOCKING}.lone", "                    os.pwrite(fd, bytes(8), 0)\n", ""),
    ),
    bug(
        "a damaged claim in the table counts as the claim of another name",
        f"{DAMAGE}::test_a_flipped_bit_of_a_single_claim_grants_nothing_next_to_its_holder",
        (f"{BLOCKING}.lone", "        if not self._sane(found):\n", "        if False:\n"),
    ),
    bug(
        "an overwritten boot id is trusted",
        f"{DAMAGE}::test_a_damaged_word_of_the_file_mutex_grants_nothing_next_to_a_holder",
        (
            f"{BLOCKING}.header",
            "        if not boot or self.same_boot() or again != boot:\n",
            "        if True:\n",
        ),
    ),
    bug(
        "impossible tickets are given",
        f"{DAMAGE}::test_a_damaged_word_of_the_file_mutex_grants_nothing_next_to_a_holder",
        (
            f"{BLOCKING}.header",
            "        if not limit <= following + SPAN <= TICKET_MAX or not following:\n",
            "        if False:\n",
        ),
    ),
    bug(
        "every session that was checked is kept open",
        f"{DAMAGE}::test_a_hundred_clients_of_a_process_need_few_descriptors",
        (f"{BLOCKING}.session", "CACHE_MAX = 2\n", "CACHE_MAX = 128\n"),
    ),
    bug(
        "a worker whose thread didn't start counts as started",
        f"{DAMAGE}::test_a_worker_whose_thread_cannot_be_started_is_started_the_next_time",
        (
            "holdfast.stores.sqlite.aio.loop",
            "        try:\n            thread.start()\n",
            "        self.thread = thread\n        try:\n            thread.start()\n",
        ),
    ),
    bug(
        "a call from a signal handler is tried again inside the file mutex",
        "tests/stores/sqlite/test_gate.py::test_a_signal_handler_that_calls_back_in_is_refused",
        (
            f"{BLOCKING}.way",
            "        if self.inside == me:\n            raise NotSupported(REENTERED)\n",
            "        if self.inside == me:\n            raise StoreUnavailable(REENTERED)\n",
        ),
    ),
    bug(
        "a locked file mutex is given up where no thread can start",
        "tests/stores/sqlite/test_gate.py::test_without_new_threads_a_locked_file_mutex_is_awaited",
        (
            f"{BLOCKING}.gate",
            "            with contextlib.suppress(RuntimeError):\n                self._porter = ",
            "            if True:\n                self._porter = ",
        ),
    ),
    bug(
        "a link in place of a file of holdfast is followed",
        f"{LIES}[before the first use-a link to a file]",
        (
            f"{BLOCKING}.owned",
            '_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)\n',
            '_FLAGS = os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)\n',
        ),
        (
            f"{BLOCKING}.owned",
            "    _require_own(path, info)\n\n\ndef require_companions",
            "\n\ndef require_companions",
        ),
    ),
    bug(
        "a new database is written into an existing file",
        f"{LIES}[before the first use-a link to a file]",
        (
            f"{BLOCKING}.database",
            "    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC\n",
            "    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC\n",
        ),
        (
            f"{BLOCKING}.database",
            '                os.unlink("new.db", dir_fd=folder)\n',
            "                pass\n",
        ),
    ),
    bug(
        "the files next to the database aren't checked",
        f"{LIES}[in use-another name of a file]",
        (
            f"{BLOCKING}.owned",
            '    for one in (path, path + "-wal", path + "-shm"):\n',
            "    for one in (path,):\n",
        ),
    ),
]
