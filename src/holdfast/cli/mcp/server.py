"""The server of ``holdfast mcp``, and its tools in the form that the SDK of MCP needs.

The tools call the methods of ``agent``. Their docstrings are sent to the model."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from ... import __version__
from ...aio import AsyncClient
from ...errors import HoldfastError
from .. import codes, origin
from ..text import span
from .agent import Agent, Progress, Refused

#: Signals that end the server; it first releases all holds.
ENDING = ("TERM", "HUP", "INT")
INSTRUCTIONS = """\
Locks that all agents, scripts and people on this store respect. Before you use something that
only one may use at a time (a test run, a port, a GPU, a browser profile, a worktree, a
deployment), acquire its name; release it as soon as you are done. A busy lock has a line: wait
in it, or do something else first. A hold lasts {lasts} unless you request another time or renew
it, and ends with your session. Durations are written 90s, 10m, 2h. If you lose a lock, stop using
what it protects."""

Tool = Callable[..., Awaitable[str]]


def serve(options: argparse.Namespace) -> int:
    """Serve on stdin and stdout until stdin ends or a signal arrives; exit with the status."""
    logging.getLogger("mcp").setLevel(logging.ERROR)  # else the SDK logs each refused call
    # A normal exit would wait for the SDK's thread that reads stdin.
    os._exit(asyncio.run(_serve(options)))


async def _serve(options: argparse.Namespace) -> int:
    client = AsyncClient(options.url, label="mcp")
    client._ctx.owner = options.owner or client.owner
    origin.tell(options, client.url)
    agent = Agent(client, options.lasts, options.longest, tuple(options.prefixes))
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    by: list[int] = []

    def end(number: int) -> None:
        by.append(number)
        ended.set()

    for name in ENDING:
        number = getattr(signal, f"SIG{name}", None)
        if number is not None:
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, end, number)
    server = build(agent, allow_break=options.allow_break)
    serving = asyncio.ensure_future(server.run_stdio_async())
    ending = asyncio.ensure_future(ended.wait())
    try:
        await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
    finally:
        await agent.close()
    return codes.SIGNALLED + by[0] if by else 0


def build(agent: Agent, *, allow_break: bool = False) -> MCPServer[Any]:
    """Return a server whose tools act for this agent."""
    server = MCPServer(
        "holdfast",
        version=__version__,
        instructions=INSTRUCTIONS.format(lasts=span(agent.lasts)),
    )
    for make in (*LOOKING, *TAKING, *([_break] if allow_break else [])):
        tool = make(agent)
        server.add_tool(
            _told(tool),
            name=tool.__name__.rstrip("_"),
            annotations=ToolAnnotations(
                read_only_hint=make in LOOKING, destructive_hint=make is _break
            ),
            structured_output=False,
        )
    return server


def _told(tool: Tool) -> Tool:
    """Wrap the tool, so that the model gets the text of an error."""

    @functools.wraps(tool)
    async def call(*args: Any, **named: Any) -> str:
        try:
            return await tool(*args, **named)
        except (HoldfastError, Refused) as wrong:
            raise ToolError(str(wrong)) from None

    return call


def _progress(context: Context[Any, Any]) -> Progress:
    async def progress(done: float, whole: float, words: str) -> None:
        await context.report_progress(done, whole, words)

    return progress


def _list(agent: Agent) -> Tool:
    async def list_(prefix: str = "") -> str:
        """Show the holder and the number of waiters of each name that begins with this prefix."""
        return await agent.look(prefix)

    return list_


def _acquire(agent: Agent) -> Tool:
    async def acquire(
        name: str,
        context: Context[Any, Any],
        permits: int | None = None,
        lasts: str = "",
        wait: str = "30s",
    ) -> str:
        """Acquire the lock of this name; wait in line if it is busy.

        permits: acquire one of this number of permits instead (a semaphore; all must use the same
        number). lasts: how long you need it, such as 10m. wait: how long to wait in line; 0s means
        not at all. The fence is a number that grows with each holder.
        """
        return await agent.acquire(name, permits, lasts, wait, _progress(context))

    return acquire


def _renew(agent: Agent) -> Tool:
    async def renew(name: str, lasts: str = "") -> str:
        """Renew your hold. lasts: how long from now, such as 10m."""
        return await agent.renew(name, lasts)

    return renew


def _check(agent: Agent) -> Tool:
    async def check(name: str) -> str:
        """Check if you still hold this name, and for how long; if not, show the holder."""
        return await agent.check(name)

    return check


def _release(agent: Agent) -> Tool:
    async def release(name: str) -> str:
        """Release your hold. The next waiter gets it immediately."""
        return await agent.release(name)

    return release


def _wait(agent: Agent) -> Tool:
    async def wait(name: str, context: Context[Any, Any], wait: str = "30s") -> str:
        """Wait until this name is free, without acquiring it."""
        return await agent.wait(name, wait, _progress(context))

    return wait


def _break(agent: Agent) -> Tool:
    async def break_(name: str, fence: int) -> str:
        """End the hold of another owner, named by its fence. Ask a human first."""
        return await agent.break_(name, fence)

    return break_


LOOKING, TAKING = (_list, _check, _wait), (_acquire, _renew, _release)
