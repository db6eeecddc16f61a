"""holdfast where the system is no POSIX: what such a system lacks is taken away in a process."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from holdfast.testing.surroundings import surroundings

#: What Windows lacks. The drivers and asyncio are imported before, as those of Windows are others.
TAKEN = """
import asyncio, concurrent.futures, os, select, signal, socket, ssl, sys, time
import {driver}
for module in ("fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "posix"):
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


def socketpair(*_):  # as the module itself has it on Windows
    with socket.create_server(("127.0.0.1", 0)) as ear:
        near = socket.create_connection(ear.getsockname())
        return near, ear.accept()[0]


socket.socketpair = socketpair
"""
DRIVERS = {
    "memory": "json",
    "sqlite": "json",
    "redis": "redis.asyncio, redis.asyncio.cluster, redis.sentinel",
    "postgresql": "psycopg, psycopg.conninfo",
    "mysql": "pymysql, asyncmy",
    "zookeeper": "kazoo.client",
}


def without_posix(store: str, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    program = TAKEN.format(driver=DRIVERS[store]) + textwrap.dedent(text)
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=surroundings())


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


def test_the_embedded_store_says_what_it_needs() -> None:
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


def test_the_command_line_looks_and_says_what_it_cannot_do(redis_url: str) -> None:
    look = """
        from holdfast.cli import main
        sys.exit(main(sys.argv[1:]))
    """
    assert without_posix("redis", look, "ls", "--url", redis_url).returncode == 0
    run = without_posix("redis", look, "run", "--url", redis_url, "x", "--", "true")
    assert run.returncode == 78
    assert "`holdfast run` needs a POSIX system" in run.stderr
