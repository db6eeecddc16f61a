"""The reply that a task awaits on a shared connection; the task continues when it arrives.

A plain future tells the loop to wake the task in its next round: a handle to make, another look
at all sockets, and for a task that is alone that is a quarter of what a request costs. Here the
task continues in the round that brought the reply, after all that arrived with it has been read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any


class Answer(asyncio.Future[Any]):
    """The answer to a request: a future; but who sets it with ``give`` also calls ``wake_all``."""

    #: How the first task that waits for it continues, and in what context. (Two places and no
    #: dictionary, as many of them live at a time.)
    __slots__ = ("context", "resume")
    context: Context | None
    resume: Callable[[Any], object]

    def add_done_callback(
        self, fn: Callable[[Any], object], /, *, context: Context | None = None
    ) -> None:
        """As of any future; but a task that awaits it is kept apart, for ``wake_all``. Only a
        task says in what context it continues, and it comes only while there is no result."""
        if context is None or self.context is not None:
            super().add_done_callback(fn, context=context)
        else:
            self.resume, self.context = fn, context

    give = asyncio.Future.set_result

    def wake_soon(self) -> None:
        """Let the task continue in a later round, as with any future."""
        context, self.context = self.context, None
        if context is not None:
            super().add_done_callback(self.resume, context=context)

    def set_result(self, result: Any, /) -> None:
        """As of any future."""
        self.wake_soon()
        super().set_result(result)

    def set_exception(self, exception: type | BaseException, /) -> None:
        """As of any future."""
        self.wake_soon()
        super().set_exception(exception)

    def cancel(self, msg: Any = None) -> bool:
        """As of any future."""
        self.wake_soon()
        return super().cancel(msg)


class Answers(Answer):
    """The answer to several requests that are sent as one: a list, once all are there."""

    __slots__ = ("count", "parts")
    count: int
    parts: list[Any]


def new_answers(loop: asyncio.AbstractEventLoop, count: int) -> Answers:
    """A future for ``count`` answers that aren't there yet."""
    answers = Answers(loop=loop)
    answers.context, answers.count, answers.parts = None, count, []
    return answers


def new_answer(loop: asyncio.AbstractEventLoop) -> Answer:
    """An answer that isn't there yet."""
    answer = Answer(loop=loop)
    answer.context = None
    return answer


def wake(waiter: asyncio.Future[None]) -> None:
    """End this sleep, unless it has ended."""
    if not waiter.done():
        waiter.set_result(None)


def wake_all(answers: list[Answer]) -> None:
    """These answers have all been given: let the tasks that wait for them continue now. Only for
    callbacks of the loop: a task can't continue inside another."""
    try:
        for answer in answers:
            context = answer.context
            if context is not None:
                answer.context = None
                context.run(answer.resume, answer)
    except BaseException:  # Ctrl-C, which has ended one of them, and us: the others continue
        for answer in answers:
            answer.wake_soon()
        raise
