"""Install Python packages into this environment: ``python -m tests.fetching.wheels GROUP ...``.

The groups are those of pyproject.toml. Their wheels are fetched once, and all is installed from
these, with no network. Nothing is imported here that a bare Python doesn't have, not even pip.
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
#: What builds the project itself: its build-system, and what that asks for beside.
BUILDERS = ("hatchling", "editables")
UNAVAILABLE = 69


def key(*groups: str) -> str:
    """What changes when other wheels are needed."""
    tables = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["dependency-groups"]
    asked = [CONSTRAINTS.read_text(encoding="utf-8"), {group: tables[group] for group in groups}]
    mark = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]
    return f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}-{mark}"


def pip_of_its_own(half: Path) -> None:
    """Pip at its exact version, got by the older one that comes with Python."""
    venv = half / "venv"
    run([sys.executable, "-m", "venv", venv])
    run(
        [
            *(venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps"),
            *("--target", half, "--constraint", CONSTRAINTS, "pip"),
        ]
    )
    shutil.rmtree(venv)
    # Else it would take itself for the one in the environment, and install none there.
    for record in half.glob("*.dist-info"):
        shutil.rmtree(record)


def main(*groups: str) -> int:
    """Install these groups, and the project itself unless it is there."""
    asked = [word for group in groups for word in ("--group", f"{PYPROJECT}:{group}")]
    try:
        pip = [sys.executable, have(CACHE / f"pip-{pinned('pip')}", pip_of_its_own) / "pip"]
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
    # The environment tells pip's children as well. A module is compiled when it is first imported:
    # most never are.
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
