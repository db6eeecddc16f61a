"""A lock as a decorator: each call holds the lock, and the call's arguments fill in the name."""

from __future__ import annotations

from typing import Any

from ....aio import AsyncLock
from ....errors import ConfigError, NotAcquired
from ..arena import EXCLUSIVE, Arena, raises
from ..registry import case


@case(*EXCLUSIVE)
async def a_decorated_function_holds_the_lock_while_it_runs(at: Arena) -> None:
    @at.lock()
    async def double(number: int) -> int:
        """Twice as much."""
        held.append(bool(await at.holders()))
        return 2 * number

    held: list[bool] = []
    assert await double(4) == 8
    assert await double(number=5) == 10
    assert held == [True, True]
    assert (double.__name__, double.__doc__) == ("double", "Twice as much.")
    assert not await at.holders()


@case(*EXCLUSIVE)
async def a_decorated_function_does_not_run_while_another_holds(at: Arena) -> None:
    ran: list[bool] = []

    @at.lock(timeout=0.3)
    async def work() -> None:
        ran.append(True)

    async with at.rival():
        with raises(NotAcquired, at.name):
            await work()
    assert ran == []
    await work()
    assert ran == [True]


@case("lock", "semaphore")
async def fields_of_the_name_are_filled_from_the_arguments(at: Arena) -> None:
    start = at.start_of_names
    seen: list[str] = []

    async def note() -> None:
        seen.extend(line.name.removeprefix(start) for line in await at.others.inspect(start))

    def lock(template: str) -> AsyncLock:
        made: AsyncLock = at.primitive.make(at.locks, start + template)
        return made

    @lock("user:{user_id}")
    async def by_name(user_id: int, other: str = "x") -> None:
        await note()

    @lock("{first}/{rest[1]}/{named[a]}/{last:>3}")
    async def by_kind(first: str, *rest: int, last: int = 7, **named: str) -> None:
        await note()

    @lock("{{literal}} {a.real}")
    async def by_attribute(a: complex) -> None:
        await note()

    await by_name(7)
    await by_name(other="y", user_id=8)
    await by_kind("f", 1, 2, a="b")
    await by_attribute(3 + 4j)
    assert seen == ["user:7", "user:8", "f/2/b/  7", "{literal} 3.0"]


@case("lock")
async def methods_have_fields_too(at: Arena) -> None:
    class Account:
        def __init__(self, number: int) -> None:
            self.number = number

        @at.locks.lock(at.fresh("{self.number}:{what}"))
        async def book(self, what: str) -> list[str]:
            """The names that are held meanwhile."""
            return [line.name for line in await at.others.inspect(at.start_of_names)]

    assert await Account(12).book("fee") == [at.fresh("12:fee")]
    assert Account.book.__doc__ == "The names that are held meanwhile."


@case("lock")
async def calls_with_other_names_do_not_wait_for_each_other(at: Arena) -> None:
    @at.locks.lock(at.fresh("{name}"))
    async def work(name: str) -> None:
        inside.append(name)
        await over.wait()

    inside: list[str] = []
    over = at.flag()
    actors = [at.start(work, name) for name in "ab"]
    await at.until(lambda: len(inside) == 2)
    over.set()
    for actor in actors:
        await actor.result()


@case("lock")
async def a_recursive_function_can_be_decorated_with_a_reentrant_lock(at: Arena) -> None:
    @at.locks.lock(at.name, reentrant=True)
    async def factorial(number: int) -> int:
        return number * await factorial(number - 1) if number > 1 else 1

    assert await factorial(5) == 120
    assert not await at.holders()


@case("lock")
async def a_field_that_is_no_argument_is_refused_at_once(at: Arena) -> None:
    async def work(user_id: int) -> None:
        raise AssertionError("it ran")

    for template in ("{user}", "{}", "{0}", "{user_id", "user_id}", "{self.x}"):
        with raises(ConfigError, template):
            at.locks.lock(at.fresh(template))(work)


@case("lock")
async def a_generator_is_not_decorated_as_its_body_would_run_unheld(at: Arena) -> None:
    async def asynchronous() -> Any:
        yield 1

    def plain() -> Any:
        yield 1

    functions: list[Any] = [asynchronous, plain]
    for function in functions:
        for name in (at.name, at.fresh("{x}")):
            with raises(ConfigError, function.__name__):
                at.locks.lock(name)(function)


@case("lock", only="aio", because="a coroutine function needs a client for asyncio")
async def a_plain_function_is_sent_to_the_other_face(at: Arena) -> None:
    def work() -> None:
        raise AssertionError("it ran")

    with raises(ConfigError, "Client"):
        at.locks.lock(at.name)(work)  # type: ignore[arg-type]


@case("lock", only="sync", because="only there a body could be left unprotected by not awaiting it")
async def a_coroutine_function_is_sent_to_the_other_face(at: Arena) -> None:
    from ....sync import Client

    async def work() -> None:
        raise AssertionError("it ran")

    with Client(at.url) as plain, raises(ConfigError, "AsyncClient"):
        plain.lock(at.name)(work)
