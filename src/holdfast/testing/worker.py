"""Another process with a separate client, which carries out the commands of a test.

``Worker`` is the handle; ``python -m holdfast.testing.worker URL FACE`` is the process. The process
reads commands from its standard input, one JSON list a line, and answers each with one JSON list.
The process ends when its standard input ends, so it never outlives the process that started it.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import holdfast

from ..aio import AsyncClient, AsyncHold
from ..errors import HoldfastError
from . import starting
from .faces import FACES, Face
from .surroundings import surroundings

#: Seconds after which a worker ends by itself.
LIFE_S = 600.0


class Worker:
    """A process that holds locks for a test.

    The process uses ``face`` for its locks, and the test uses the same face to wait for answers.
    """

    def __init__(self, url: str, face: Face) -> None:
        source = str(pathlib.Path(holdfast.__file__).parents[1])
        path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
        self._face = face
        self.process = starting.popen(
            [sys.executable, "-m", "holdfast.testing.worker", url, face.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=surroundings(PYTHONPATH=path),
        )
        self.pid = self.process.pid

    def send(self, command: str, *args: Any) -> None:
        """Send the process a command; ``answer`` returns the result."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([command, *args]) + "\n")
        self.process.stdin.flush()

    async def answer(self) -> Any:
        """Return the answer to the oldest unanswered command, or raise the command's exception."""
        assert self.process.stdout is not None
        line = await self._face.outside(self.process.stdout.readline)
        if not line:
            raise EOFError(f"the worker ended with status {self.process.wait()}")
        kind, value = json.loads(line)
        if kind != "ok":
            raise getattr(holdfast, kind, RuntimeError)(value)
        return value

    async def call(self, command: str, *args: Any) -> Any:
        """Send the process a command and wait for the answer."""
        self.send(command, *args)
        return await self.answer()

    async def acquire(
        self, name: str, *, timeout: float | None = None, ttl: float = 30.0
    ) -> int | None:
        """Make the process acquire a lock; return the fence, or None if the name was busy."""
        fence: int | None = await self.call("acquire", name, timeout, ttl)
        return fence

    def kill(self) -> None:
        """End the process with SIGKILL, without clean-up in it."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Close the pipes, so that the process ends; kill it if it doesn't end within 5 s."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue  # it has ended already
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()


class _Commands:
    """The commands of a worker, one method each."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._holds: dict[str, AsyncHold] = {}

    async def acquire(self, name: str, timeout: float | None, ttl: float) -> int | None:
        hold = await self._client.lock(name, ttl=ttl).acquire(timeout=timeout)
        return self._keep(hold)

    async def attempt(self, name: str) -> int | None:
        return self._keep(await self._client.lock(name).acquire(blocking=False))

    async def adopt(self, token: str) -> int | None:
        return self._keep(await self._client.adopt(token))

    async def detach(self, name: str) -> str:
        return await self._holds.pop(name).detach()

    async def release(self, name: str) -> bool:
        return await self._holds.pop(name).release()

    async def state(self, name: str) -> str:
        return self._holds[name].state

    async def wait_lost(self, name: str, timeout: float) -> str | None:
        return await self._holds[name].wait_lost(timeout)

    async def break_(self, name: str, fence: int) -> bool:
        return await self._client.break_(name, fence)

    async def count(self, name: str, path: str, rounds: int) -> list[int]:
        """Add one to the number in a file ``rounds`` times, under the lock; return the fences."""
        file = pathlib.Path(path)
        fences = []
        for _ in range(rounds):
            async with self._client.lock(name) as hold:
                number = int(file.read_text())
                file.write_text(str(number + 1))
                fences.append(hold._lease.fence)
        return fences

    def _keep(self, hold: AsyncHold | None) -> int | None:
        if hold is None:
            return None
        self._holds[hold.name] = hold
        return hold._lease.fence  # on a store without fences, this number only names the claim


async def _serve(client: AsyncClient, face: Face) -> None:
    commands = _Commands(client)
    while line := await face.outside(sys.stdin.readline):
        command, *args = json.loads(line)
        try:
            reply = ["ok", await getattr(commands, command)(*args)]
        except HoldfastError as failure:
            reply = [type(failure).__name__, str(failure)]
        print(json.dumps(reply), flush=True)
    await client.close()


def main(url: str, name: str) -> None:
    """Serve until the standard input ends."""
    face = FACES[name]

    async def serve() -> None:
        await _serve(face.client(url, label="worker"), face)

    face.run(serve, LIFE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
