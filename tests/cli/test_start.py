"""`holdfast run` starts quickly: users put it before short commands that run every minute."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.cli.world import World

#: Modules that take more than 2 ms to import, and that neither process needs.
SLOW = {
    "asyncio", "dataclasses", "difflib", "email", "importlib.metadata", "importlib.resources",
    "inspect", "ipaddress", "json", "pathlib", "secrets", "shutil", "subprocess", "tempfile",
    "unittest", "urllib.parse", "uuid",
}  # fmt: skip


def test_neither_process_imports_what_takes_long(world: World) -> None:
    world.run("run", "job", "--", "true")
    # The holder process is a fork of the front process, so its imports are listed as well.
    words = [sys.executable, "-X", "importtime", world.env["COMMAND"], "run", "job", "--", "true"]
    done = subprocess.run(words, env=world.env, capture_output=True, text=True)
    assert done.returncode == 0
    imported = set(re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE))
    assert "holdfast.cli.keep" in imported
    assert imported & SLOW == set()
