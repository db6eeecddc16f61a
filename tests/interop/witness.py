"""Records of turns: the times that each process notes, and keys that the server keeps meanwhile.

These are two independent witnesses. Each worker notes times by the clock that all processes of a
machine share. And a key names the worker that is inside: each worker must find the key unset when
it enters, and find its own name there when it leaves.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

from holdfast.testing.promise import promised

_HANDED = """
local function handed(side) return tonumber(redis.call('HGET', KEYS[3], side) or '0') end
local least = string.format('|%d', math.min(handed('ours'), handed('theirs')))
"""
#: Enter. Returns the worker that is inside (empty if all is well), a bar, and the number of
#: hand-overs to the side with fewer of them. A hand-over to a side counts if its worker had waited
#: and entered after a worker of the other side.
ENTER = f"""
local found = redis.call('GET', KEYS[1])
if not found then redis.call('SET', KEYS[1], ARGV[1]) end
local side, left = string.match(redis.call('GET', KEYS[2]) or '', '^(%S+) (%S+)$')
if side and side ~= ARGV[2] and tonumber(ARGV[3]) < tonumber(left) then
  redis.call('HINCRBY', KEYS[3], ARGV[2], 1)
end
{_HANDED}
return (found or '') .. least
"""
#: Leave. Returns the wrong worker that is inside (empty if all is well), a bar, and that number.
LEAVE = f"""
local found = redis.call('GET', KEYS[1])
if found == ARGV[1] then
  redis.call('DEL', KEYS[1])
  found = ''
end
redis.call('SET', KEYS[2], ARGV[2] .. ' ' .. ARGV[3])
{_HANDED}
return (found or 'nobody') .. least
"""


def keys(name: str) -> list[str]:
    """The keys of the witness for this name, all in one slot."""
    return [f"witness:{{{name}}}:{what}" for what in ("inside", "left", "handed")]


class Turn(NamedTuple):
    """One turn: its worker, and the times at which the worker asked, held and began to leave."""

    side: str
    who: str
    asked: float
    held: float
    left: float


class Record(NamedTuple):
    """The turns of several workers on one name, in the order in which they entered."""

    turns: list[Turn]
    trouble: list[str]

    @classmethod
    def of(cls, told: Iterable[tuple[str, str, dict[str, Any]]]) -> Record:
        """Make a record from the answers to ``loop``: (side, who, answer)."""
        turns: list[Turn] = []
        trouble: list[str] = []
        for side, who, answer in told:
            turns += [Turn(side, who, *times) for times in answer["turns"]]
            trouble += answer["trouble"]
        return cls(sorted(turns, key=lambda turn: turn.held), trouble)

    def checked(self) -> Self:
        """Check that no two workers were inside at once, and that no wait failed."""
        assert self.trouble == [], self.trouble
        with promised("one holder"):
            assert self.overlaps() == [], self.overlaps()
        return self

    def overlaps(self) -> list[str]:
        """A line for each turn that began before an earlier turn had ended."""
        found = []
        last: Turn | None = None
        for turn in self.turns:
            if last is not None and turn.held < last.left:
                by = last.left - turn.held
                found.append(f"{turn.who} came in {by:.6f} s before {last.who} left")
            if last is None or turn.left > last.left:
                last = turn
        return found

    def handed(self, to: str) -> list[float]:
        """Seconds of each hand-off from the other side to this one that was waited for.

        They run from before the release was sent to after the acquire returned.
        """
        return [
            turn.held - last.left
            for last, turn in pairwise(self.turns)
            if turn.side == to != last.side and turn.asked < last.left
        ]

    def longest_wait(self) -> float:
        """The longest wait for the lock, in seconds."""
        return max(turn.held - turn.asked for turn in self.turns)


def in_words(what: str, seconds: Sequence[float]) -> str:
    """The number of values, their median and their maximum, in milliseconds."""
    if not seconds:
        return f"{what}: none"
    middle, worst = statistics.median(seconds), max(seconds)
    return f"{what}: {len(seconds)}, median {middle * 1e3:.2f} ms, worst {worst * 1e3:.1f} ms"
