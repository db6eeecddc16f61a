"""Helpers of the command line tests: real processes, and waits for conditions."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast import ClaimRecord, Client
from tests.servers.process import SOON_S, until

ROOT = Path(__file__).resolve().parents[2]
#: Maximum seconds for any wait.
BOUND_S = SOON_S
#: What a shell script of a test runs when it is ready; after it the file has its process id.
READY = "echo $$ >> ready.new; mv ready.new ready"


def holdfast(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m holdfast`` with these variables, and with none that configure a store."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        env={**env, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def stat(pid: int) -> list[str]:
    """Return the kernel's data of a process: its state, its parent, and more."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def alive(pid: int) -> bool:
    """Return whether a process runs; one that waits to be reaped doesn't."""
    try:
        return stat(pid)[0] not in "ZX"
    except OSError:
        return False


def parent(pid: int) -> int:
    """Return the parent process of a process."""
    return int(stat(pid)[1])


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if parent(int(folder.name)) == pid:
                found.append(int(folder.name))
    return sorted(found)


class Started:
    """A command that was started, and that a test can signal and wait for."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        #: The process ids that the command has written: its own first.
        self.pids: list[int] = []

    @property
    def command(self) -> int:
        return self.pids[0]

    @property
    def keeper(self) -> int:
        """The holder process."""
        (pid,) = [pid for pid in children(self.pid) if pid not in self.pids]
        return pid

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self) -> tuple[int, str, str]:
        """Wait for the end; return the exit status, output and errors."""
        out, err = self.process.communicate(timeout=BOUND_S)
        return self.process.returncode, out, err


class World:
    """A folder with a store, and the commands that run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite://{folder / 'locks.db'}"
        self.client = Client(self.url)
        self.started: list[Started] = []
        (folder / "bin").mkdir()
        command = folder / "bin" / "holdfast"
        command.touch(0o755)
        self.with_numbers()
        self.env = {
            "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
            "COMMAND": str(command),
            "HOME": str(folder),
            "HOLDFAST_URL": self.url,
            "PYTHONPATH": str(ROOT / "src"),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
        }

    def with_numbers(self, **numbers: str) -> None:
        """Write the command file, with a limit of ``BOUND_S`` for each of these names.

        The value is the module that defines the name. No machine is too busy for such a limit.
        """
        lines = [f"#!{sys.executable}", "import sys"]
        lines += [f"import {place}; {place}.{name} = {BOUND_S}" for name, place in numbers.items()]
        lines += ["from holdfast.cli import main", "sys.exit(main())", ""]
        (self.folder / "bin" / "holdfast").write_text("\n".join(lines))

    def path(self, name: str) -> Path:
        """Return the path of a file in the folder."""
        return self.folder / name

    def start(self, *words: str, **options: Any) -> Started:
        """Start ``holdfast`` with these words."""
        env = {**self.env, **options.pop("env", {})}
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(
            ["holdfast", *words],
            cwd=self.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            executable=str(self.folder / "bin" / "holdfast"),
            **options,
        )
        self.started.append(Started(process))
        return self.started[-1]

    def run(self, *words: str, **options: Any) -> tuple[int, str, str]:
        """Run ``holdfast`` to its end; return the exit status, output and errors."""
        text = options.pop("input", None)
        if text is not None:
            options["stdin"] = subprocess.PIPE
        started = self.start(*words, **options)
        out, err = started.process.communicate(text, timeout=BOUND_S)
        return started.process.returncode, out, err

    def claims(self, name: str = "job") -> list[ClaimRecord]:
        """Return the claims on one name, read directly from the store."""
        lines = self.client.inspect(name, exact=True)
        return list(lines[0].claims) if lines else []

    def script(self, text: str, *words: str, name: str = "job", **options: Any) -> Started:
        """Start a ``holdfast run`` of a shell script, and wait until it has called READY."""
        self.path("ready").unlink(missing_ok=True)
        started = self.start("run", *words, name, "--", "sh", "-c", text, **options)
        until(self.path("ready").exists, "the command runs")
        started.pids = [int(pid) for pid in self.path("ready").read_text().split()]
        return started

    def holding(self, *words: str, name: str = "job", **options: Any) -> Started:
        """Start a ``holdfast run`` whose command runs under the lock until it is killed."""
        return self.script(f"{READY}; exec sleep 60", *words, name=name, **options)

    @contextlib.contextmanager
    def blocked(self, program: str = "") -> Iterator[int]:
        """Let a process hold the store's file mutex, so that the store doesn't answer."""
        held = f"import fcntl, os, sys; f = open(sys.argv[1], 'r+b'); fcntl.flock(f, 2); {program}"
        words = [sys.executable, "-c", f"{held}\nprint(1, flush=True); sys.stdin.read()"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        gate = self.folder / "locks.db.d" / "gate"
        with subprocess.Popen([*words, str(gate)], **pipes) as blocker:  # type: ignore[call-overload]
            assert blocker.stdout.readline() == b"1\n"
            yield blocker.pid

    def waiting(self, *words: str, name: str = "job") -> Started:
        """Start a ``holdfast run`` that waits in line."""
        before = len(self.claims(name))
        started = self.start("run", *words, name, "--", "true")
        until(lambda: len(self.claims(name)) > before, "it waits in line")
        return started

    def end(self) -> None:
        """Kill all remaining processes by SIGKILL."""
        self.client.close()
        for started in self.started:
            if started.process.poll() is None:
                for pid in [*children(started.pid), started.pid]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            started.process.communicate(timeout=BOUND_S)
