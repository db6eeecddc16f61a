"""``holdfast mcp``: the SDK's client calls every tool, and two sessions compete for a name."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as Agent
from mcp.client.stdio import StdioServerParameters

from holdfast import Client
from tests.cli import world
from tests.servers.process import until
from tests.torture.scale import FULL

#: Seconds until a killed session's name is free, with a reserve for busy machines. On sqlite the
#: session ends immediately; on a server its lease must expire.
FREE_S = {"sqlite": 5.0, "redis": 30.0}


@pytest.fixture(params=FREE_S if FULL else ["sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/locks.db"
    return f"{request.getfixturevalue('redis_url')}?prefix={tmp_path.name}:"


#: The handshakes of a client: the usual one, and that of the newest protocol.
OLD, NEW = "legacy", "auto"


@contextlib.asynccontextmanager
async def session(url: str, *words: str, mode: str = OLD) -> AsyncIterator[Call]:
    """A session with `holdfast mcp`; gives the object that calls its tools."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "holdfast", "mcp", "--url", url, *words],
        env={**os.environ, "PYTHONPATH": str(world.ROOT / "src")},
    )
    try:
        async with Agent(command, mode=mode) as agent:
            yield Call(agent)
    except BaseExceptionGroup as group:  # by the client's own tasks
        raise first(group) from None


def first(group: BaseExceptionGroup[Any]) -> BaseException:
    """Return the first error in a group of groups."""
    one = group.exceptions[0]
    return first(one) if isinstance(one, BaseExceptionGroup) else one


class Call:
    """Calls tools of one session."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    async def __call__(self, tool: str, /, **named: Any) -> str:
        """Return the text of a tool's result, which must not be an error."""
        failed, said = await self.ask(tool, **named)
        assert not failed, said
        return said

    async def ask(self, tool: str, /, **named: Any) -> tuple[bool, str]:
        """Return whether the result is an error, and its text."""
        result = await self.agent.call_tool(tool, named)
        return bool(result.is_error), "".join(getattr(one, "text", "") for one in result.content)


def played(text: Callable[[str], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    """Make a test of a coroutine function."""

    def test(url: str) -> None:
        asyncio.run(asyncio.wait_for(text(url), 110))

    test.__name__ = text.__name__  # type: ignore[attr-defined]
    return test


def held(url: str, name: str) -> list[str]:
    """Return the owners of the holders of a name."""
    with Client(url) as client:
        return [one.owner for line in client.inspect(name, exact=True) for one in line.holders]


@played
async def test_two_agents_contend_and_every_tool_answers_in_clear_words(url: str) -> None:
    async with session(url, "--as", "ann") as ann, session(url, "--as", "bob") as bob:
        names = {tool.name for tool in (await ann.agent.list_tools()).tools}
        assert names == {"list", "acquire", "renew", "check", "release", "wait"}
        assert "No name is held" in await ann("list")
        assert "You hold 'gpu' now, for 10 m" in await ann("acquire", name="gpu")
        # The second agent gets the holder's name, waits, and acquires after the release
        busy = await bob("acquire", name="gpu", wait="0s")
        assert "'gpu' is held by ann" in busy
        assert "acquire it again" in busy
        assert "ann" in await bob("check", name="gpu")
        assert "gpu (lock): ann" in await bob("list", prefix="g")
        assert "'gpu' is held by ann" in await bob("wait", name="gpu", wait="0.2s")
        waiting = asyncio.ensure_future(bob("acquire", name="gpu", wait="50s"))
        while "1 waiter" not in await ann("list"):
            await asyncio.sleep(0.05)
        assert "You hold 'gpu' for 20 m more" in await ann("renew", name="gpu", lasts="20m")
        assert "is released" in await ann("release", name="gpu")
        assert "You hold 'gpu' now" in await waiting
        assert held(url, "gpu") == ["bob"]
        assert "you have released it" in await ann("check", name="gpu")
        assert "You hold 'gpu' for" in await bob("check", name="gpu")


@played
async def test_a_hold_ends_with_its_time_and_only_a_held_name_can_be_released(url: str) -> None:
    async with session(url, "--longest", "1m") as ann:
        await ann("acquire", name="x", lasts="1s", permits=2)
        assert len(held(url, "x")) == 1
        await asyncio.to_thread(until, lambda: not held(url, "x"), "its time has expired")
        assert "its time has expired" in await ann("check", name="x")
        for tool in ("release", "renew"):
            failed, said = await ann.ask(tool, name="x")
            assert failed
            assert "You don't hold 'x': its time has expired" in said
        failed, said = await ann.ask("acquire", name="x", lasts="2h")
        assert failed
        assert "2h is not between 1.0 s and 1 m" in said


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "ci/" + 600 * "x"}, "name"),
    ({"name": "ci/x", "lasts": "soon"}, "'soon' is not a duration"),
    ({"name": "ci/x", "lasts": "0s"}, "0s is not between 1.0 s and 1 h"),
    ({"name": "ci/x", "wait": "-1s"}, "is not a duration"),
    ({"name": "ci/x", "permits": 0}, "permits"),
    ({"name": "ci/x", "permits": "many"}, "permits"),
    ({"name": "other"}, "must begin with 'ci/'"),
    ({}, "name"),
]


@played
async def test_what_makes_no_sense_is_refused_with_a_remedy(url: str) -> None:
    async with session(url, "--prefix", "ci/") as ann:
        for named, told in WRONG:
            failed, said = await ann.ask("acquire", **named)
            assert failed, named
            assert told in said
            assert "Traceback" not in said
        assert "No name is held" in await ann("list")


@played
async def test_only_a_server_that_may_break_has_the_tool(url: str) -> None:
    async with session(url, "--allow-break", mode=NEW) as ann, session(url) as bob:
        await bob("acquire", name="x")
        with Client(url) as client:
            (fence,) = [one.fence for one in client.inspect("x", exact=True)[0].holders]
        assert "is broken" in await ann("break", name="x", fence=fence)
        assert "No claim on 'x' has fence" in await ann("break", name="x", fence=fence)
        assert held(url, "x") == []


@pytest.mark.usual(1)
@pytest.mark.parametrize("end", ["KILL", "TERM", "stdin"])
def test_what_a_session_holds_is_free_when_its_process_has_ended(url: str, end: str) -> None:
    ended(url, end)


def test_what_a_killed_session_holds_on_a_server_is_free_after_one_lease(redis_url: str) -> None:
    ended(f"{redis_url}?prefix=mcp:", "KILL")


def ended(url: str, end: str) -> None:
    """End a session that holds a name in this way; then the name is free."""
    server = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "mcp", "--url", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(world.ROOT / "src")},
    )
    assert server.stdin is not None
    assert server.stdout is not None
    hello = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        '"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
        '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"acquire",'
        '"arguments":{"name":"x","lasts":"1h"}}}\n'
    )
    server.stdin.write(hello.encode())
    server.stdin.flush()
    until(lambda: held(url, "x"), "the agent holds it")
    if end == "stdin":
        server.stdin.close()
    else:
        server.send_signal(getattr(signal, f"SIG{end}"))
    code = server.wait(20)
    server.stdin.close()
    server.stdout.close()
    assert code == {"KILL": -9, "TERM": 128 + 15, "stdin": 0}[end]
    begun = time.monotonic()
    soon = FREE_S[url.partition(":")[0]] if end == "KILL" else 2.0
    until(lambda: not held(url, "x"), "it is free", soon)
    print(f"free after {time.monotonic() - begun:.2f} s")


def test_without_the_sdk_the_error_names_the_package(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('no mcp', name='mcp')\n")
    path = f"{tmp_path}:{world.ROOT / 'src'}"
    done = world.holdfast("mcp", "--url", f"sqlite://{tmp_path}/l", PYTHONPATH=path)
    assert done.returncode == 78
    assert "pip install 'mcp>=2.3'" in done.stderr
