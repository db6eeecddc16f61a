"""The commands of CI jobs on the page about holds across commands, taken from its examples.

They are the runs of a GitHub job, the lines of a GitLab job and the `sh` steps of Jenkins. Each has
a separate shell, as in CI. They run one after the other, in a folder with the two scripts that they
name.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Client
from tests.tidy.pages import Snippet, snippets
from tests.tidy.tree import ROOT

#: The form of a step in each system.
STEPS = {
    "GitHub": re.compile(r"^ +(?:- )?run: (.+)$", re.MULTILINE),
    "GitLab": re.compile(r"^    - (.+)$", re.MULTILINE),
    "Jenkins": re.compile(r"\bsh '([^']+)'"),
}


def blocks(language: str) -> list[Snippet]:
    page = (ROOT / "docs" / "across.md").read_text(encoding="utf-8")
    return [one for one in snippets(page) if one.language == language]


def steps(system: str) -> list[str]:
    """Return the commands of the job of this system, without the installation of holdfast."""
    text = {
        "GitHub": blocks("yaml")[0],
        "GitLab": blocks("yaml")[1],
        "Jenkins": blocks("groovy")[0],
    }
    found = STEPS[system].findall(text[system].code)
    return [one for one in found if "install" not in one]


@pytest.mark.parametrize("system", STEPS)
def test_the_steps_of_a_ci_job_hold_the_lock_from_the_first_to_the_last(
    system: str, tmp_path: Path
) -> None:
    url = f"sqlite://{tmp_path}/locks.db"
    command = tmp_path / "holdfast"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n')
    for script in ("migrate.sh", "switch.sh"):
        (tmp_path / script).write_text("#!/bin/sh\nholdfast show --json deploy >> seen\n")
        (tmp_path / script).chmod(0o755)
    command.chmod(0o755)
    env = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT / "src"),
        "HOLDFAST_URL": url,
        "RUNNER_TEMP": str(tmp_path),
        "CI_PROJECT_DIR": str(tmp_path),
    }
    words = steps(system)
    assert ["acquire" in words[0], "release" in words[-1]] == [True, True]
    for one in words:
        done = subprocess.run(
            ["sh", "-e", "-c", one], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, (one, done.stderr)
    seen = (tmp_path / "seen").read_text()
    assert seen.count('"detached": true') == 2
    with Client(url) as client:
        assert client.inspect() == []


def test_the_hooks_are_what_the_page_has_written() -> None:
    (hooks,) = blocks("json")
    called = re.findall(r'"command": "sh (\S+)"', hooks.code)
    assert json.loads(hooks.code)["hooks"].keys() == {"PreToolUse", "PostToolUse"}
    for name in called:
        assert any(f"cat > {name} <<" in one.code for one in blocks("sh") if one.runs), name
