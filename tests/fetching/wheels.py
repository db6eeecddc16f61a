"""Install Python packages into this environment: ``python -m tests.fetching.wheels GROUP ...``.

The groups are those of pyproject.toml. Their wheels are fetched once. Everything is then installed
from them, without network. This module imports only what a bare Python has, not even pip.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import sysconfig
import tomllib
from importlib import metadata
from pathlib import Path

from tests.fetching.cache import CACHE, CONSTRAINTS, PROJECT, Failed, have, pinned, run, said, say

PYPROJECT = PROJECT / "pyproject.toml"
#: The packages that build the project: its build system, and a package that this one requests.
BUILDERS = ("hatchling", "editables")
UNAVAILABLE = 69


def key(*groups: str) -> str:
    """A name that changes when other wheels are needed."""
    tables = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["dependency-groups"]
    asked = [CONSTRAINTS.read_text(encoding="utf-8"), {group: tables[group] for group in groups}]
    mark = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]
    return f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}-{mark}"


def separate_pip(half: Path) -> None:
    """Install pip at its exact version, by means of the older pip that comes with Python."""
    venv = half / "venv"
    run([sys.executable, "-m", "venv", venv])
    run(
        [
            *(venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps"),
            *("--target", half, "--constraint", CONSTRAINTS, "pip"),
        ]
    )
    shutil.rmtree(venv)
    # Otherwise this pip would take itself for the one in the environment, and not install pip
    # there.
    for record in half.glob("*.dist-info"):
        shutil.rmtree(record)


def main(*groups: str) -> int:
    """Install these groups, and also the project unless it is installed."""
    asked = [word for group in groups for word in ("--group", f"{PYPROJECT}:{group}")]
    try:
        pip = [sys.executable, have(CACHE / f"pip-{pinned('pip')}", separate_pip) / "pip"]
        exact = ["--quiet", "--disable-pip-version-check", "--constraint", CONSTRAINTS]
        wheels = have(
            CACHE / f"wheels-{key(*groups)}",
            lambda half: run([*pip, "wheel", *exact, "-w", half, "pip", *BUILDERS, *asked]),
        )
    except Failed as failure:
        say(said(failure))
        say("the Python packages can't be had, and nothing runs without them; see above.")
        say("Is a package index in reach? Then call this again.")
        return UNAVAILABLE
    itself = [] if [*metadata.distributions(name="holdfast")] else ["--editable", PROJECT]
    # The environment variables also reach the child processes of pip. Nothing is compiled here,
    # because Python compiles a module when it is first imported, and most modules never are.
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    try:
        run([*pip, "install", *exact, "--no-compile", "pip", *itself, *asked], **offline)
    except Failed as failure:
        say(said(failure))
        say(f"pip could not install what is in {wheels}; if that is damaged, remove it")
        return UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
