"""A script that acquires a lock, works under it in several commands, and releases it, in rounds.

``python -m tests.torture.script URL NAME ROUNDS SEED``. Its commands are separate processes, forked
to save time. Any of them can be killed with -9, at any point. In some rounds the script doesn't
release what it holds. It prints a line of JSON for each try. A hold is proven from the moment when
its token was there until the last command began that the store confirmed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time

from holdfast.cli import main

TTL_S = 3
#: One command in ``KILLED`` is killed, and in one round of ``FORGOTTEN`` the release is left out.
KILLED, FORGOTTEN = 9, 12


def command(rng: random.Random, token: str, *words: str) -> tuple[int, str]:
    """Run a command in a forked process; return its exit status, -9 if it was killed, and its
    output."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.dup2(writer, 1)
            os.environ["HOLDFAST_TOKEN"] = token
            sys.argv[1:] = words
            sys.stdout = os.fdopen(1, "w")
            code = main()
        finally:
            os._exit(code)
    os.close(writer)
    if rng.randrange(KILLED) == 0:
        time.sleep(rng.random() ** 3 * 0.2)
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(reader) as out:
        said = out.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said


def play(name: str, rng: random.Random) -> None:
    """Play one round: acquire, check, renew, check, and usually release."""
    asked = time.monotonic()
    words = ("acquire", name, "-w", "120", "--ttl", f"{TTL_S}s", "--as", f"script {os.getpid()}")
    code, token = command(rng, "", *words)
    held: dict[str, float] = {"asked": asked, "from": time.monotonic(), "code": code}
    if code == 0:
        for what in ("check", "renew", "check"):
            time.sleep(rng.random() * 0.01)
            asked = time.monotonic()
            code, said = command(rng, token.strip(), what, "--json")
            if code == 0:
                held |= {"until": asked, "fence": json.loads(said)["fence"]}
            elif code != -signal.SIGKILL:
                held["over"] = code
                break
        if rng.randrange(FORGOTTEN):
            while (code := command(rng, token.strip(), "release", "-q", "--if-held")[0]) == -9:
                pass
            held["released"] = code
    print(json.dumps(held), flush=True)


if __name__ == "__main__":
    os.environ["HOLDFAST_URL"] = sys.argv[1]
    draws = random.Random(sys.argv[4])
    for _ in range(int(sys.argv[3])):
        play(sys.argv[2], draws)
