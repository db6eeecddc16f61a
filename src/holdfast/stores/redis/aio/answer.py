"""The reply that a task awaits on a shared connection; the task continues when the reply arrives.

A plain future makes the loop wake the task in its next round. The loop then makes a new handle and
polls all sockets again: if only one task sends requests, these two steps are a quarter of the cost
of a request. With `Answer`, the task continues in the round that brought the reply, after all data
that arrived with the reply has been read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any


class Answer(asyncio.Future[Any]):
    """The answer to a request: a future. After ``give`` the caller must call ``wake_all``."""

    #: The callback that continues the first task that waits, and its context (None: no such task).
    #: Slots and no dictionary, to save memory: many answers exist at the same time.
    __slots__ = ("context", "resume")
    context: Context | None
    resume: Callable[[Any], object]

    def add_done_callback(
        self, fn: Callable[[Any], object], /, *, context: Context | None = None
    ) -> None:
        """As in any future, but the first task that awaits the answer is stored separately, for
        ``wake_all``. Only a task passes a context, and only while there is no result."""
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
        """As in any future."""
        self.wake_soon()
        super().set_result(result)

    def set_exception(self, exception: type | BaseException, /) -> None:
        """As in any future."""
        self.wake_soon()
        super().set_exception(exception)

    def cancel(self, msg: Any = None) -> bool:
        """As in any future."""
        self.wake_soon()
        return super().cancel(msg)


class Answers(Answer):
    """The answer to several requests that are sent as one: the list of all replies."""

    __slots__ = ("count", "parts")
    count: int
    parts: list[Any]


def new_answers(loop: asyncio.AbstractEventLoop, count: int) -> Answers:
    """A future for ``count`` answers that have not arrived."""
    answers = Answers(loop=loop)
    answers.context, answers.count, answers.parts = None, count, []
    return answers


def new_answer(loop: asyncio.AbstractEventLoop) -> Answer:
    """An answer that has not arrived."""
    answer = Answer(loop=loop)
    answer.context = None
    return answer


def wake(waiter: asyncio.Future[None]) -> None:
    """End a sleep, unless it has ended already."""
    if not waiter.done():
        waiter.set_result(None)


def wake_all(answers: list[Answer]) -> None:
    """Continue the tasks that wait for these answers, which all have a result. Only callbacks of
    the loop may call it: a task can't continue inside another task."""
    try:
        for answer in answers:
            context = answer.context
            if context is not None:
                answer.context = None
                context.run(answer.resume, answer)
    except BaseException:  # Ctrl-C has ended a task and this call: the other tasks continue
        for answer in answers:
            answer.wake_soon()
        raise
