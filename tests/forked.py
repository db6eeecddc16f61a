"""Python programs for tests, forked from a process that has already imported holdfast.

To import holdfast and a driver costs ten times as much as a fork, and a run of all tests starts a
thousand processes. For the programs in `FORKED`, ``Forked`` replaces ``subprocess.Popen``, with the
few options that tests use. All other programs still use ``Popen``. The server, ``python -m
tests.forked``, has one thread, opens nothing, and ends with the process that started it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from holdfast.testing.faults.pipe import readable

#: The forked programs: ``python -m`` and one of these names.
FORKED = {
    "holdfast.testing.faults.stage",
    "holdfast.testing.worker",
}
#: Modules that the server also imports before the fork if its client has imported them. They open
#: nothing and start no thread.
IMPORTED = ("aio", "core", "dialects", "runtime", "stores", "sync", "testing.faults")
#: Environment variables that Python or the C library reads at its start.
_AT_START = ("PYTHON", "LD_", "GLIBC_", "MALLOC_", "LANG", "LC_", "TZ")
_SIZE = struct.Struct("!Q")


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    found = {name: value for name, value in environment.items() if name.startswith(_AT_START)}
    found.pop("PYTHONPATH", None)
    return found


class Server:
    """The forking process, as its client sees it."""

    def __init__(self, path: str) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._environment = _at_start(os.environ)
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": path},
            )

        atexit.register(self.end)

    def end(self) -> None:
        """End the server, unless this process is a fork of the client that started it."""
        if self.pid == os.getpid():
            self._socket.close()
            self._process.wait()

    def serves(self, environment: Mapping[str, str]) -> bool:
        """Return whether a program with this environment starts like the server."""
        return self.pid == os.getpid() and _at_start(environment) == self._environment

    def fork(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        """Fork a process with these descriptors (0, 1, 2 and the status pipe); return its id."""
        said = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._socket, [_SIZE.pack(len(said))], descriptors)
            self._socket.sendall(said)
            (pid,) = _SIZE.unpack(_exactly(self._socket, _SIZE.size))
        return int(pid)


#: Values of ``PYTHONPATH`` that lead to another release of holdfast; each has a separate server.
RELEASES: set[str] = set()
_servers: dict[str, Server] = {}


def popen(command: Sequence[str], **options: Any) -> Any:
    """Return a `Forked` if the program and its environment allow it, else a ``Popen``."""
    if list(command[:2]) == [sys.executable, "-m"] and command[2] in FORKED:
        path = options["env"].get("PYTHONPATH")
        if path not in RELEASES:
            path = os.pathsep.join(filter(None, sys.path))
        server = _servers.get(path)
        if server is None or server.pid != os.getpid():
            server = _servers[path] = Server(path)
        if server.serves(options["env"]):
            return Forked(server, command[2:], **options)
    return subprocess.Popen(command, **options)


class Forked:
    """A process that the server forked, with the interface of ``Popen``."""

    def __init__(
        self,
        server: Server,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: int | None = None,
        stdout: int | None = None,
        bufsize: int = -1,
        text: bool = False,
    ) -> None:
        self.args = words
        self.returncode: int | None = None
        self.stdin: IO[Any] | None = None
        self.stdout: IO[Any] | None = None
        self._status, status = os.pipe()
        theirs = [0, 1, 2, status]
        mine = [status]
        if stdin is not None:
            theirs[0], ours = os.pipe()
            mine.append(theirs[0])
            self.stdin = os.fdopen(ours, "w" if text else "wb", bufsize)
        if stdout is not None:
            ours, theirs[1] = os.pipe()
            mine.append(theirs[1])
            self.stdout = os.fdopen(ours, "r" if text else "rb", bufsize)
        loaded = [one for one in sys.modules if one.startswith("holdfast.") and _light(one)]
        request = {"words": words, "env": dict(env), "cwd": os.getcwd(), "imported": loaded}
        try:
            self.pid = server.fork(request, theirs)
        finally:
            for one in mine:
                os.close(one)

    def poll(self) -> int | None:
        """Return the exit status, or minus the signal that ended the process; None until then."""
        if self.returncode is None and readable(self._status, 0):
            self._over()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process has ended; return its exit status like `poll`."""
        if self.returncode is None:
            if not readable(self._status, timeout):
                raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
            self._over()
        assert self.returncode is not None
        return self.returncode

    def _over(self) -> None:
        said = os.read(self._status, 4)
        # No status: the server has ended, and its forked processes end with it.
        self.returncode = struct.unpack("!i", said)[0] if said else -signal.SIGKILL
        os.close(self._status)

    def send_signal(self, number: int) -> None:
        """Send the process a signal, if it hasn't ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """End the process by SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def __del__(self) -> None:
        if self.returncode is None and hasattr(self, "_status"):
            os.close(self._status)


def _light(module: str) -> bool:
    """Return whether the server can import this module."""
    return module not in FORKED and module.removeprefix("holdfast.").startswith(IMPORTED)


def _exactly(source: socket.socket, size: int) -> bytes:
    said = b""
    while len(said) < size:
        piece = source.recv(size - len(said))
        if not piece:
            raise EOFError("the other end is gone")
        said += piece
    return said


# -- the server ----------------------------------------------------------------------------


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; return the request in the child, and None when the client closes."""
    ear, mouth = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(mouth)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control, ear], [], [])
        if ear in ready:
            os.read(ear, 4096)
            _reap(running)
        if control not in ready:
            continue
        head, descriptors, _, _ = socket.recv_fds(control, _SIZE.size, 4)
        if not head:
            return None
        head += _exactly(control, _SIZE.size - len(head))
        request: dict[str, Any] = json.loads(_exactly(control, _SIZE.unpack(head)[0]))
        fresh = [one for one in request["imported"] if one not in sys.modules]
        for one in fresh:
            with contextlib.suppress(ImportError):  # another release can lack the module
                importlib.import_module(one)
        if fresh:
            gc.collect()
            gc.freeze()
        pid = os.fork()
        if pid == 0:
            _begin(request, descriptors)
            return request
        running[pid] = descriptors[3]
        for one in descriptors[:3]:
            os.close(one)
        control.sendall(_SIZE.pack(pid))


def _reap(running: dict[int, int]) -> None:
    """Report the exit status of each child that has ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        mouth = running.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(mouth, struct.pack("!i", os.waitstatus_to_exitcode(status)))
        os.close(mouth)


def _begin(request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Restore the state that a program has at its start."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, one in enumerate(descriptors[:3]):
        os.dup2(one, number)
    os.closerange(3, max(64, *descriptors, *map(int, os.listdir("/proc/self/fd"))) + 1)
    environment = request["env"]
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(request["cwd"])
    path = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [request["cwd"], *dict.fromkeys([*path, *sys.path[1:]])]
    sys.argv = ["-m", *request["words"][1:]]
    time.tzset()


if __name__ == "__main__":
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        runpy.run_module(asked["words"][0], run_name="__main__", alter_sys=True)
