"""Fetch the clients of others for Java and node: ``python -m tests.interop.fetch``.

``./dev test`` calls it. What is there already is left alone, and costs nothing and no network. It
says what could not be fetched, and ends with 1 if that is something which this machine has the
tools for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.interop.foreign import (
    CURATOR,
    CURATOR_SOURCES,
    FETCHED,
    HERE,
    JAVA_SOURCES,
    NODE_PACKAGES,
    PATH,
    REDISSON,
    fresh,
    mark,
    tool,
)

#: A repository for one run: what is in it that isn't needed is thrown away.
CACHE = FETCHED / "maven"


def say(text: str) -> None:
    """A line for the person who waits."""
    sys.stderr.write(f"dev: {text}\n")


def run(command: Sequence[str], folder: Path) -> None:
    """Run a tool there; what it has to say is shown if it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PATH": PATH},
    )
    if done.returncode:
        sys.stderr.write(done.stdout)
        done.check_returncode()


def java(what: str, version: str, pom: Path, sources: Sequence[Path], folder: Path) -> None:
    """The jars of this version, and our program compiled with them."""
    jars = FETCHED / f"{what}-{version}" / "jars"
    if jars.is_dir():
        shutil.copytree(jars, folder / "jars")
    else:
        run(
            [
                tool("mvn"), "--quiet", "--batch-mode", "--no-transfer-progress",
                f"-D{what}={version}", f"-Dmaven.repo.local={CACHE}",
                f"-DoutputDirectory={folder / 'jars'}",
                "--file", str(pom), "dependency:copy-dependencies",
            ],
            folder,
        )  # fmt: skip
    texts = [str(path) for path in sources if path.suffix == ".java"]
    run(
        [tool("javac"), "-d", str(folder / "classes"), "-cp", f"{folder / 'jars'}/*", *texts],
        folder,
    )


def redisson(version: str, folder: Path) -> None:
    """Redisson, and the program that drives it."""
    java("redisson", version, HERE / "java" / "pom.xml", JAVA_SOURCES, folder)


def curator(folder: Path) -> None:
    """Curator's recipes, and the program that drives its mutex."""
    *_, pom = CURATOR_SOURCES
    java("curator", CURATOR, pom, CURATOR_SOURCES, folder)


def redlock(folder: Path) -> None:
    """The packages for node."""
    for path in NODE_PACKAGES:
        shutil.copy(path, folder)
    run([tool("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)


def fetch(
    what: str, into: str, sources: Sequence[Path], tools: Sequence[str], get: Callable[[Path], None]
) -> bool:
    """Make this folder, unless it is there; False if it could not be made though it should be."""
    folder = FETCHED / into
    if fresh(folder, sources):
        return True
    absent = [one for one in tools if not tool(one)]
    if absent:
        say(f"no {' and no '.join(absent)} here: the tests with {what} are skipped")
        return True
    say(f"fetching {what} for the tests (once)")
    half = FETCHED / f"{into}.half"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    try:
        get(half)
    except subprocess.CalledProcessError as failure:
        say(f"{what} is not to be had here: {Path(failure.cmd[0]).name} failed, see above")
        return False
    (half / "mark").write_text(mark(sources))
    shutil.rmtree(folder, ignore_errors=True)
    half.rename(folder)
    return True


def main() -> int:
    """Fetch all that isn't there."""
    tools = ("java", "javac", "mvn")
    done = [
        fetch(
            f"Redisson {version}",
            f"redisson-{version}",
            JAVA_SOURCES,
            tools,
            lambda folder, version=version: redisson(version, folder),
        )
        for version in REDISSON.values()
    ]
    done.append(fetch(f"Curator {CURATOR}", f"curator-{CURATOR}", CURATOR_SOURCES, tools, curator))
    done.append(fetch("node-redlock", "node", NODE_PACKAGES, ("node", "npm"), redlock))
    shutil.rmtree(CACHE, ignore_errors=True)
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
