"""Tests of the interop tests: each fault that is planted in a dialect makes one of them fail."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import holdfast
from tests.interop import test_ends, test_foreign, test_redisson, test_turns
from tests.interop.crew import Crew
from tests.interop.pairs import PLAIN, REDISSON
from tests.mutants.failure import broken, chosen, failure, judge
from tests.servers.redis_server import RedisServer
from tests.torture.scale import FULL

Act = Callable[[Crew, RedisServer, str], None]


class Bug(NamedTuple):
    """A fault: ``new`` replaces ``old`` in ``file``. ``found`` fails then, quickly if ``soon``."""

    file: str
    old: str
    new: str
    found: Act
    soon: bool = False


HAND_OFFS = test_turns.test_hand_offs_between_libraries_have_no_overlap_and_no_stall
NOTICED = test_turns.test_a_release_is_noticed_soon_by_the_other_side
BUGS = {
    "a plain lock is taken though it is held": Bug(
        "plain/lua/join.lua",
        "if held == false then\n",
        "if held then\n  redis.call('DEL', key)\n  held = false\nend\nif held == false then\n",
        lambda *of: HAND_OFFS(PLAIN["redis-py"], "lock", *of),
    ),
    "a release frees a plain lock of another client": Bug(
        "plain/lua/leave.lua",
        "if type(held) == 'string' and string.sub(held, 1, #mark) == mark then",
        "if type(held) == 'string' then",
        lambda *of: test_foreign.test_a_release_by_another_client_is_refused_both_ways(
            PLAIN["redis-py"], "lock", "holdfast", *of
        ),
        soon=True,
    ),
    "a waiter for a plain lock isn't notified of its release": Bug(
        "blocking.py",
        "self.mail.append(self.watched)",
        "pass",
        lambda *of: NOTICED(*test_turns.NOTICED["redis-py"], "holdfast", *of),
    ),
    "the signal of python-redis-lock isn't sent": Bug(
        "plain/lua/leave.lua",
        "    redis.pcall('LPUSH', KEYS[3], 1)\n",
        "",
        lambda *of: NOTICED(*test_turns.NOTICED["python-redis-lock"], "holdfast", *of),
    ),
    "a plain lock is taken without an expiry": Bug(
        "plain/lua/join.lua",
        "redis.call('SET', key, ARGV[1], ARGV[3], ARGV[4])",
        "redis.call('SET', key, ARGV[1])",
        lambda *of: test_ends.test_what_a_killed_process_held_comes_free_after_its_lease_both_ways(
            PLAIN["redis-py"], *of
        ),
    ),
    "Redisson isn't notified of a release": Bug(
        "redisson/lua/release.lua",
        "    redis.call('DEL', to.lock)\n    wake(to)\n",
        "    redis.call('DEL', to.lock)\n",
        lambda *of: NOTICED(*test_turns.NOTICED["redisson"], "holdfast", *of),
    ),
    "a writer is granted next to readers": Bug(
        "redisson/lua/join_write.lua",
        "  if found == '' then\n",
        "  if found == '' or redis.call('HGET', lock, 'mode') == 'read' then\n",
        lambda *of: test_redisson.test_readers_of_both_sides_share_and_keep_writers_of_both_out(
            REDISSON["redisson"], *of
        ),
    ),
    "a permit is released twice": Bug(
        "redisson/lua/permits.lua",
        "redis.call('INCRBY', name, removed))",
        "redis.call('INCRBY', name, 2 * removed))",
        lambda *of: HAND_OFFS(REDISSON["redisson"], "permits", *of),
        soon=True,
    ),
    "a newcomer overtakes the waiters of a fair lock": Bug(
        "redisson/lua/join_fair.lua",
        "if found == '' and (not head or head == owner) then",
        "if found == '' then",
        lambda *of: test_redisson.test_a_fair_lock_serves_both_sides_in_order(
            REDISSON["redisson"], *of
        ),
    ),
    "a fence is never drawn": Bug(
        "redisson/lua/join.lua",
        "fenced and redis.call('INCR', tokens) or 1",
        "1",
        test_redisson.test_fences_rise_over_the_grants_of_both_sides,
        soon=True,
    ),
}


#: A fault that shows only by a time-out takes long to prove.
TABLE = "interop"
PROVEN = chosen(TABLE, BUGS, [name for name, bug in BUGS.items() if FULL or bug.soon])
HERE = Path(holdfast.__file__).parent


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_the_bug_can_be_planted(bug: Bug) -> None:
    assert (HERE / "dialects" / bug.file).read_text().count(bug.old) == 1


def planted(bug: Bug, folder: Path) -> Path:
    """Return a folder with a copy of holdfast that has the bug."""
    shutil.copytree(HERE, folder / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "holdfast" / "dialects" / bug.file
    file.write_text(file.read_text().replace(bug.old, bug.new))
    return folder


@pytest.mark.parametrize("name", PROVEN)
def test_the_bug_is_caught(
    name: str,
    crew: Crew,
    shared_redis: RedisServer,
    own_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A few turns and short leases are enough here
    few = {"STEP_LEASE_S": 1.0, "LIMIT_S": 5.0, "STEPS": 2, "MANY": 2, "SOME": 2}
    for what, value in few.items():
        monkeypatch.setattr(test_turns, what, value)
    (tmp_path / "logs").mkdir()
    bug = BUGS[name]
    wrong = Crew(tmp_path / "logs", planted(bug, tmp_path / "source"), crew)
    try:
        with pytest.raises(AssertionError) as told:
            bug.found(wrong, shared_redis, own_name)
        # And the failure isn't that a process could not carry out its command
        assert "has ended" not in str(told.value)
        assert "sent nothing" not in str(told.value)
        judge(TABLE, name, failure(told.value), broken(told.value))
    finally:
        wrong.close()
