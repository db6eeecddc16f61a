"""The plugin in another project's test suite: it works for tests that use it, and affects no
others."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from tests.tidy.pages import snippets
from tests.tidy.tree import ROOT

INSTALLED = bool(metadata.entry_points(group="pytest11", name="holdfast"))
PLUGIN = [] if INSTALLED else ["-p", "holdfast.testing.plugin"]


def run(folder: Path, text: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a file of tests as a user would."""
    (folder / "test_theirs.py").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGIN, *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )


LEAKS = """
import asyncio
keep = []
def test_leaks(locks): keep.append(locks.lock('left open').acquire())
def test_leaks_many(locks): keep.append(locks.all('a', 'b').acquire())
def test_forgets(locks): locks.lock('forgotten').acquire()
def test_leaks_async(async_locks):
    async def main(): keep.append(await async_locks.lock('x').acquire())
    asyncio.run(main())
def test_hands_over(locks): locks.adopt(locks.lock('x').acquire().detach()).release()
def test_detaches(locks): locks.lock('x').acquire().detach()
def test_expires(locks, lock_clock):
    keep.append(locks.lock('x', auto_renew=False).acquire())
    lock_clock.advance(31)
def test_after(locks):
    with locks.lock('left open', timeout=0): pass
"""


def test_a_hold_that_is_never_released_fails_its_test_alone(tmp_path: Path) -> None:
    done = run(tmp_path, LEAKS, "-rA")
    assert "8 passed, 4 errors" in done.stdout
    assert "still holds 'left open' (fence 1, owner " in done.stdout
    for name in ("leaks", "leaks_many", "forgets", "leaks_async"):
        assert f"ERROR test_theirs.py::test_{name} " in done.stdout


IMPORTS = """
import sys
def test_nothing_is_imported():
    ours = {m for m in sys.modules if m.startswith('holdfast')}
    assert ours == {'holdfast', 'holdfast.errors', 'holdfast.testing', 'holdfast.testing.plugin'}
"""
NAMES = ["locks", "async_locks", "lock_clock", "lose", "contend"]


def test_a_suite_that_asks_for_nothing_pays_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, IMPORTS)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_suite_with_fixtures_of_the_same_names_keeps_its_own(tmp_path: Path) -> None:
    fixtures = (f"@pytest.fixture\ndef {name}(): return 'mine'\n" for name in NAMES)
    text = "import pytest\n" + "".join(fixtures)
    text += f"def test_own({', '.join(NAMES)}):\n    assert {{{', '.join(NAMES)}}} == {{'mine'}}\n"
    done = run(tmp_path, text, "-W", "error")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_every_fixture_is_listed_with_what_it_is(tmp_path: Path) -> None:
    done = run(tmp_path, "", "--fixtures", "-p", "no:time_machine")  # it prints nothing itself
    for name in NAMES:
        assert f"\n{name} -- " in done.stdout or f"\n{name} [" in done.stdout, done.stdout
    assert "no docstring available" not in done.stdout.split("holdfast")[-1]


def test_the_tests_on_the_page_pass(tmp_path: Path) -> None:
    blocks = snippets((ROOT / "docs/testing.md").read_text(encoding="utf-8"))
    text = "\n\n".join(one.code for one in blocks if one.language == "python" and one.runs)
    number = text.count("def test_")
    assert number >= 8
    done = run(tmp_path, text, "-W", "error")
    assert f"{number} passed" in done.stdout, done.stdout
