"""holdfast on systems without POSIX: a process first removes what such a system lacks."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli import tree
from holdfast.testing.surroundings import surroundings
from tests.servers.redis_server import RedisServer

#: What Windows lacks. The drivers and asyncio are imported first: on Windows they differ.
TAKEN = """
import asyncio, concurrent.futures, os, select, signal, socket, ssl, sys, time
import {driver}
for module in ("fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "posix", "syslog"):
    sys.modules[module] = None
for owner, names in {{
    os: ["fork", "register_at_fork", "uname", "getuid", "geteuid", "getgid", "getpgrp", "setpgid",
         "killpg", "mkfifo", "WNOHANG", "sched_yield", "O_NONBLOCK", "O_CLOEXEC", "O_NOFOLLOW",
         "O_DIRECTORY", "statvfs", "posix_spawn", "sysconf", "waitid", "pread", "pwrite"],
    time: ["clock_gettime", "clock_gettime_ns", "CLOCK_MONOTONIC", "CLOCK_BOOTTIME",
           "CLOCK_REALTIME", "tzset"],
    signal: ["SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT", "SIGKILL", "SIGSTOP", "SIGTSTP", "SIGCONT",
             "SIGCHLD", "SIGALRM", "SIGPIPE", "SIGTTOU", "SIGTTIN", "SIGWINCH", "pthread_sigmask",
             "setitimer", "sigwait"],
    socket: ["AF_UNIX", "send_fds", "recv_fds", "SO_PEERCRED", "MSG_DONTWAIT"],
    select: ["poll", "epoll"],
}}.items():
    for name in names:
        if hasattr(owner, name):
            delattr(owner, name)


def no_empty_select(*sets, real=select.select):
    if not any(sets[:3]):
        raise OSError(10022, "An invalid argument was supplied")
    return real(*sets)


def socketpair(*_):  # as in the module on Windows
    with socket.create_server(("127.0.0.1", 0)) as ear:
        near = socket.create_connection(ear.getsockname())
        return near, ear.accept()[0]


select.select = no_empty_select
socket.socketpair = socketpair
"""
DRIVERS = {
    "memory": "json",
    "mcp": "mcp.server.mcpserver, mcp.server.stdio, anyio._backends._asyncio, redis.asyncio",
    "sqlite": "json",
    "redis": "redis.asyncio, redis.asyncio.cluster, redis.sentinel",
    "postgresql": "psycopg, psycopg.conninfo",
    "mysql": "pymysql, asyncmy",
    "zookeeper": "kazoo.client",
}


def without_posix(
    store: str, text: str, *words: str, cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    program = TAKEN.format(driver=DRIVERS[store]) + textwrap.dedent(text)
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        env={**surroundings(), **env},
    )


USED = """
    from holdfast import AsyncClient, Client, LockLost, lock
    url, name = sys.argv[1:]
    with Client(url) as client:
        with client.lock(name, timeout=10, ttl=5) as hold:
            hold.check()
            assert client.lock(name).acquire(blocking=False) is None
            assert len(client.inspect(name, exact=True)) == 1
        with client.all(name + "a", name + "b", timeout=10):
            pass
        if client.capabilities.queues:
            queue = client.queue(name)
            queue.put("job")
            assert queue.take(timeout=10).ack()
        if client.capabilities.guards:
            assert client.guard(name, ttl=60).get(lambda: 7) == 7

    async def main():
        async with AsyncClient(url) as client:
            async with client.lock(name, timeout=10, ttl=5) as hold:
                hold.check()
                assert await client.lock(name).acquire(blocking=False) is None

    asyncio.run(main())
    print("served")
"""


@pytest.mark.usual(2)
@pytest.mark.parametrize("store", ["memory", "redis", "postgresql", "mysql", "zookeeper"])
def test_every_store_with_a_server_works_without_posix(
    store: str, request: pytest.FixtureRequest, own_name: str
) -> None:
    servers = {"redis": "redis", "postgresql": "postgres", "mysql": "mariadb"}
    url = "memory://"
    if store != "memory":
        url = request.getfixturevalue(f"shared_{servers.get(store, store)}").url
    done = without_posix(store, USED, url, own_name)
    assert done.stdout == "served\n", done.stderr


def test_the_error_of_the_embedded_store_names_its_requirements() -> None:
    done = without_posix(
        "sqlite",
        """
        from holdfast import AsyncClient, Client, ConfigError
        for make in (Client, AsyncClient):
            try:
                make()
            except ConfigError as wrong:
                print(wrong)
        """,
    )
    first, second = done.stdout.splitlines()
    assert first == second, done.stderr
    assert "needs a POSIX system with fcntl" in first
    assert "HOLDFAST_URL=redis://" in first


@pytest.mark.parametrize(
    "module", ["holdfast", "holdfast.caches", "holdfast.fenced", "holdfast.sql"]
)
def test_the_public_names_can_be_imported_without_posix(module: str) -> None:
    done = without_posix(
        "memory",
        """
        import importlib
        module = importlib.import_module(sys.argv[1])
        for name in module.__all__:
            try:
                getattr(module, name)
            except ImportError as missing:
                assert missing.name == "fcntl", name
        print("all there")
        """,
        module,
    )
    assert done.stdout == "all there\n", done.stderr


#: Command lines, in this order, with the exit status of each.
LINES = {
    "acquire x --token-file t": 0,
    "acquire x -w 1.2": 75,
    "check --token-file t": 0,
    "renew --token-file t": 0,
    "wait x -n": 75,
    "ls": 0,
    "show x": 0,
    "break x -y": 0,
    "release --if-held --token-file t": 0,
    "pick x y": 0,
    "queue put q job": 0,
    "queue ls": 0,
    "queue show q": 0,
    "queue dead q": 0,
    "queue retry q --all": 1,
    "queue purge q -y": 0,
    "queue work q -- true": 78,
    "guard ls": 0,
    "guard show g": 0,
    "guard invalidate g k": 1,
    "doctor": 0,
    "purge --older-than 30d": 78,
    "schema mysql": 0,
    "completion bash": 0,
    "run x -- true": 78,
    "demo": 78,
    "mcp": 0,  # the last, as it ends the process
}
ALL = """
    from holdfast.cli import main
    for line in sys.argv[1:]:
        status = main(line.split())
        print(f"of {line}: {status}", file=sys.stderr)
    sys.exit(70)
"""


def test_without_posix_each_command_works_or_reports_that_it_cannot(
    new_redis: Callable[..., RedisServer], tmp_path: Path
) -> None:
    url = new_redis().url
    done = without_posix("mcp", ALL, *LINES, HOLDFAST_URL=url, cwd=tmp_path)
    found = re.findall(r"^of (.*): (\d+)$", done.stderr, re.MULTILINE)
    ended = {line: int(status) for line, status in found} | {"mcp": done.returncode}
    assert ended == LINES, done.stderr
    assert "Traceback" not in done.stderr
    assert "waiting for 'x', held by" in done.stderr
    assert "`holdfast run` needs a POSIX system" in done.stderr
    assert {line.split()[0] for line in LINES} == set(tree.COMMANDS)
