"""Bugs that a full or failing disk, random damage or low descriptors show in the embedded store."""

from __future__ import annotations

from .bugs import bug

FULL = "tests/stores/sqlite/test_full_disk.py"
DAMAGE = "tests/stores/sqlite/test_damage.py"
CLOCKS = "tests/stores/sqlite/test_fences.py"
DESCRIPTORS = (
    "tests/stores/sqlite/test_descriptors.py"
    "::test_a_daemon_that_replaces_its_standard_descriptors_loses_no_lock"
)
OPENING = "holdfast.runtime.opening.blocking"
HEADER = "holdfast.stores.sqlite.blocking.header"
FOLDER = "holdfast.stores.sqlite.blocking.folder"

DISKS = [
    bug(
        "a waiter polls a failing disk until its time-out",
        f"{FULL}::test_a_waiter_gets_an_error_at_once_when_the_disk_fails",
        (
            "holdfast.core.claims",
            "        if isinstance(failure, DiskFailed):\n",
            "        if False:\n",
        ),
    ),
    bug(
        "a job is put again and again on a full disk",
        f"{FULL}::test_a_full_disk_is_an_error_at_once_and_all_works_with_room_again",
        (
            "holdfast.core.context",
            "        if isinstance(failure, DiskFailed):\n",
            "        if False:\n",
        ),
    ),
    bug(
        "an exhausted quota counts as an outage of the store",
        f"{FULL}::test_a_disk_error_of_the_system_is_raised_as_disk_failed",
        (
            "holdfast.stores.sqlite.blocking.paths",
            "(errno.ENOSPC, errno.EDQUOT, errno.EFBIG)",
            "(errno.ENOSPC, errno.EFBIG)",
        ),
    ),
    bug(
        "a new file mutex counts tickets from a clock that was set back",
        f"{CLOCKS}::test_a_clock_set_back_before_a_part_was_deleted_lets_no_fence_fall",
        (
            HEADER,
            "start = max(int(walltime() * 1e6), ticket + 1)",
            "start = int(walltime() * 1e6)",
        ),
    ),
    bug(
        "an impossible line counts as an outage of the store",
        f"{DAMAGE}::test_an_impossible_line_header_is_a_clear_error",
        (
            "holdfast.stores.sqlite.blocking.odd",
            "    wrong.sqlite_errorcode = sqlite3.SQLITE_CORRUPT\n",
            "    wrong.sqlite_errorcode = sqlite3.SQLITE_ERROR\n",
        ),
    ),
    bug(
        "an impossible row raises a raw error of Python",
        "tests/stores/sqlite/test_odd_rows.py::test_a_replaced_value_causes_no_raw_error_and_no_second_holder",
        (
            "holdfast.stores.sqlite.blocking.way",
            "        except UNREADABLE as wrong:\n",
            # A missing attribute would count as code that can't run
            "        except AttributeError as wrong:\n",
        ),
        full=True,
    ),
    bug(
        "a session gets the descriptor of stdin",
        f"{DESCRIPTORS}[(0,)-started so]",
        (
            OPENING,
            "    if fd >= FIRST:\n        return fd\n",
            "    if fd >= 0:\n        return fd\n",
        ),
        commands=True,
    ),
    bug(
        "a file mutex gets the descriptor of stdin",
        f"{DESCRIPTORS}[(0,)-started so]",
        (
            OPENING,
            "        while not all(map(_taken, range(FIRST))):\n",
            "        while not all(map(_taken, range(0))):\n",
        ),
        commands=True,
    ),
    bug(
        "a fenced file gets the descriptor of stderr",
        f"{DESCRIPTORS}[(0, 1, 2)-started so]",
        (
            OPENING,
            "    if file.fileno() >= FIRST:\n        return file\n",
            "    if file.fileno() >= 0:\n        return file\n",
        ),
        commands=True,
    ),
    bug(
        "a folder that is being closed is given to another thread",
        "tests/stores/sqlite/test_place.py::test_a_folder_being_closed_is_not_returned_to_another_thread",
        (FOLDER, "        weakref.finalize(self, _close, self.fd).atexit = False\n", ""),
        (
            FOLDER,
            "    def names(self) -> list[str]:\n",
            (
                "    def __del__(self) -> None:\n        _close(self.fd)\n\n"
                "    def names(self) -> list[str]:\n"
            ),
        ),
    ),
]
