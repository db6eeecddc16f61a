"""Names are never interpreted, wrong input is refused, and lines of claims can be inspected."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable
from typing import Any

from ....core.model import ClaimRecord, LineRecord
from ....errors import ConfigError
from ..arena import EXCLUSIVE, SINGLE, Arena, raises
from ..registry import case

#: Suffixes of names; each must give a separate name.
DISTINCT = [
    "a", "A", "a ", " a", "a\n", "a\0", "a\0b", "a\r\n", "á", "a\u0301", "ä", "ß", "ss", "日本",
    "🔒", "{a}", "{{a}}", "a/b", "a//b", "a/./b", "../a", "a:b", "a%", "a_", "a%2F", "a*", "a?",
    "[a]", "'", '"', "a'; DROP TABLE claims; --", "\\", "\\0", "$1", ":name", "-", "--", "0", "00",
    "\u200b", "\ufeff", "\x7f", "\x1b[31m", "None", "null", "a\tb", "#a", "a#", "@a", "a@b", "~",
]  # fmt: skip


class _Colour(str, enum.Enum):  # noqa: UP042 # its text differs from that of a StrEnum
    RED = "red"


@case("lock", "semaphore", promise=True)
async def names_that_differ_at_all_are_different_names(at: Arena) -> None:
    assert len(set(DISTINCT)) == len(DISTINCT)
    names = [at.fresh(end) for end in DISTINCT]
    holds = {}
    for name in names:
        hold = await at.primitive.make(at.locks, name).acquire(blocking=False)
        assert hold is not None, f"{name!r} is not distinct"
        holds[name] = hold
    for name in names:
        assert await at.primitive.make(at.others, name).acquire(blocking=False) is None
        (line,) = await at.others.inspect(name, exact=True)
        assert line.name == name
    listed = [line.name for line in await at.others.inspect(at.start_of_names)]
    assert sorted(listed) == sorted(names)
    for hold in holds.values():
        assert await hold.release() is True


@case("lock")
async def a_name_may_have_512_bytes(at: Arena) -> None:
    room = 512 - len(at.start_of_names)
    for end in ("x" * room, "é" * (room // 2), "日" * (room // 3), "🔒" * (room // 4)):
        async with at.locks.lock(at.fresh(end)):
            assert await at.others.lock(at.fresh(end)).acquire(blocking=False) is None
            with raises(ConfigError, "512"):
                at.locks.lock(at.fresh(end) + "🔒")


@case("lock", promise=True)
async def all_of_a_long_name_counts(at: Arena) -> None:
    start = at.fresh("x" * (510 - len(at.start_of_names)))
    async with at.locks.lock(start + "ab"), at.locks.lock(start + "ac"), at.locks.lock(start):
        assert len(await at.others.inspect(start)) == 3


@case("lock")
async def a_text_of_another_class_is_the_text_that_it_is(at: Arena) -> None:
    class Text(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "another"

    assert at.locks.lock(_Colour.RED).name == "red"
    name = Text(at.name)
    async with at.locks.lock(name) as hold:
        assert hold.name == at.name
        assert type(hold.name) is str
        assert await at.holders()


@case("lock", needs=["semaphore", "rwlock", "election", "kinds"])
async def a_name_is_one_kind_at_a_time(at: Arena) -> None:
    kinds: dict[str, Callable[[Any], Any]] = {
        "a lock": lambda client: client.lock(at.name),
        "a semaphore of 1 permits": lambda client: client.semaphore(at.name, 1),
        "a rwlock": lambda client: client.rwlock(at.name).write,
        "an election": lambda client: client.election(at.name),
    }
    for mine, make in kinds.items():
        async with make(at.locks) as hold:
            for other, make_other in kinds.items():
                if other == mine:
                    continue
                with raises(ConfigError, at.name, mine, other, "another name"):
                    await make_other(at.others).acquire(timeout=1)
            hold.check()


@case(*EXCLUSIVE, needs=["visible_line", "owners"])
async def inspect_lists_holders_and_waiters(at: Arena) -> None:
    async def wait() -> None:
        async with at.rival(meta="waits"):
            pass

    async with at.lock(meta="holds", ttl=20.0) as hold:
        waiter = at.start(wait)
        await at.line(waiters=1)
        second = at.start(wait)
        await at.line(waiters=2)
        line = await at.look()
        assert isinstance(line, LineRecord)
        assert (line.name, line.kind) == (at.name, at.primitive.kind)
        (holder,) = line.holders
        one, two = line.waiters
        assert line.claims == (holder, one, two)
        assert isinstance(holder, ClaimRecord)
        assert (holder.owner, holder.fence, holder.meta) == (
            at.locks.owner,
            at.number(hold),
            "holds",
        )
        assert (holder.held, holder.position, holder.weight) == (True, 0, hold.weight)
        assert 0 <= holder.age < 5
        assert 0 < holder.expires_in <= 20
        at.in_order(at.number(hold), one.fence, two.fence)
        assert (one.held, one.position, two.position) == (False, 1, 2)
        assert (one.owner, one.meta) == (at.others.owner, "waits")
        assert 0 < one.expires_in <= 20
    for actor in (waiter, second):
        await actor.result()
    assert await at.look() is None


@case("lock")
async def inspect_goes_by_prefix_or_exactly_and_is_sorted(at: Arena) -> None:
    ends = ["b", "a", "a%", "ab", "a_", "B", "a/1"]
    holds = [await at.locks.lock(at.fresh(end)).acquire() for end in ends]

    async def ends_of(prefix: str, exact: bool = False) -> list[str]:
        lines = await at.others.inspect(at.fresh(prefix), exact=exact)
        return [line.name.removeprefix(at.start_of_names) for line in lines]

    assert await ends_of("") == sorted(ends)
    assert await ends_of("a") == ["a", "a%", "a/1", "a_", "ab"]
    assert await ends_of("a%") == ["a%"]
    assert await ends_of("a_") == ["a_"]
    assert await ends_of("a*") == []
    assert await ends_of("a", exact=True) == ["a"]
    assert await ends_of("c") == []
    everything = {line.name for line in await at.others.inspect()}
    assert {at.fresh(end) for end in ends} <= everything
    for hold in holds:
        await hold.release()


@case("lock")
async def input_that_can_not_be_right_is_refused_in_words(at: Arena) -> None:
    c: Any = at.locks
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: c.lock(""), "name is empty"),
        (lambda: c.lock("x" * 513), "513 bytes"),
        (lambda: c.lock(b"x"), "decode it"),
        (lambda: c.lock(None), "NoneType"),
        (lambda: c.lock(7), "7"),
        (lambda: c.lock("\ud800"), "surrogate"),
        (lambda: c.lock("x", ttl=0), "ttl=0"),
        (lambda: c.lock("x", ttl=0.009), "ttl=0.009"),
        (lambda: c.lock("x", ttl=86401), "86401"),
        (lambda: c.lock("x", ttl=-1), "ttl=-1"),
        (lambda: c.lock("x", ttl="30"), "'30'"),
        (lambda: c.lock("x", ttl=True), "True"),
        (lambda: c.lock("x", ttl=float("nan")), "nan"),
        (lambda: c.lock("x", ttl=float("inf")), "inf"),
        (lambda: c.lock("x", ttl=10**400), "ttl=a number of more than"),
        (lambda: c.lock("x", timeout=-2), "timeout=-2"),
        (lambda: c.lock("x", timeout="soon"), "soon"),
        (lambda: c.lock("x", max_hold=0), "max_hold=0"),
        (lambda: c.lock("x", min_hold=-1), "min_hold=-1"),
        (lambda: c.lock("x", min_hold=5, max_hold=2), "max_hold=2"),
        (lambda: c.lock("x", on_lost="call me"), "call me"),
        (lambda: c.lock("x", meta=7), "meta"),
        (lambda: c.lock("x", meta="m" * 4097), "4097 bytes"),
        (lambda: c.supports("flying"), "flying"),
    ]
    _refused(wrong)


@case("lock", needs=["semaphore", "rwlock", "election"])
async def what_other_primitives_can_not_be_given_is_refused_in_words(at: Arena) -> None:
    c: Any = at.locks
    _refused(
        [
            (lambda: c.semaphore("x", 0), "permits=0"),
            (lambda: c.semaphore("x", -1), "permits=-1"),
            (lambda: c.semaphore("x", 2.0), "2.0"),
            (lambda: c.semaphore("x", True), "True"),
            (lambda: c.semaphore("x", 1 << 21), "permits=2097152"),
            (lambda: c.semaphore("x", 4, weight=0), "weight=0"),
            (lambda: c.semaphore("x", 4, on_conflict="resise"), "resise"),
            (lambda: c.rwlock(""), "name is empty"),
            (lambda: c.election(None), "NoneType"),
        ]
    )


def _refused(wrong: list[tuple[Callable[[], Any], str]]) -> None:
    """Check that each of these calls is refused, with these words in the message."""
    for make, words in wrong:
        with raises(ConfigError) as caught:
            make()
        assert isinstance(caught.error, ValueError)
        assert words in str(caught.error), (words, str(caught.error))
        assert len(str(caught.error)) < 400


@case("lock")
async def arguments_of_acquire_that_contradict_are_refused(at: Arena) -> None:
    lock: Any = at.lock()
    for kwargs, words in (
        ({"blocking": False, "timeout": 1}, "blocking=False"),
        ({"timeout": -2}, "timeout=-2"),
        ({"timeout": float("nan")}, "nan"),
        ({"timeout": "soon"}, "soon"),
    ):
        with raises(ConfigError, words):
            await lock.acquire(**kwargs)
    assert not await at.holders()
    hold = await lock.acquire(blocking=False, timeout=-1)  # as in `threading`
    await hold.release()


@case(*SINGLE)
async def spans_of_time_may_be_timedeltas(at: Arena) -> None:
    second = dt.timedelta(seconds=1)
    lock: Any = at.lock(ttl=20 * second, timeout=second)
    hold = await lock.acquire(timeout=second)
    assert hold.ttl == 20.0
    assert await at.lock(timeout=second / 20).locked()
    assert await hold.release() is True


@case("lock")
async def a_client_returns_the_capabilities_of_its_store(at: Arena) -> None:
    for name, value in at.can._asdict().items():
        if isinstance(value, bool):
            assert at.locks.supports(name) is value
    assert at.can.store
    assert at.locks.url in repr(at.locks)
    host, pid, label = at.locks.owner.split(":")
    assert host
    assert pid.isdigit()
    assert label == "ours"
