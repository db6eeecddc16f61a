"""`holdfast run` starts quickly: users put it before short commands that run every minute."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from statistics import median

from tests.cli.world import World

#: Modules that take more than 2 ms to import, and that neither process needs.
SLOW = {
    "asyncio", "dataclasses", "difflib", "email", "importlib.metadata", "importlib.resources",
    "inspect", "ipaddress", "json", "pathlib", "secrets", "shutil", "subprocess", "tempfile",
    "unittest", "urllib.parse", "uuid",
}  # fmt: skip
#: Maximum seconds in addition to a bare interpreter. The aim is 60 ms on an idle machine.
OVER_S_MAX = 0.4


def test_neither_process_imports_what_takes_long(world: World) -> None:
    world.run("run", "job", "--", "true")
    # The holder process is a fork of the front process, so its imports are listed as well.
    words = [sys.executable, "-X", "importtime", world.env["COMMAND"], "run", "job", "--", "true"]
    done = subprocess.run(words, env=world.env, capture_output=True, text=True)
    assert done.returncode == 0
    imported = set(re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE))
    assert "holdfast.cli.keep" in imported
    assert imported & SLOW == set()


def test_it_costs_little_over_a_bare_interpreter(world: World) -> None:
    """Compare CPU time, because test machines are busy.

    `./dev bench startup` measures elapsed time.
    """

    def seconds(*words: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, env=world.env, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    over = []
    for _ in range(5):
        bare = seconds(sys.executable, "-c", "pass")
        over.append(seconds(world.env["COMMAND"], "run", "job", "--", "true") - bare)
    print(f"{median(over) * 1000:.0f} ms over a bare interpreter")
    assert median(over) < OVER_S_MAX
