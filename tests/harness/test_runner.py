"""``./dev test`` distinguishes a broken test from a disturbed one, and runs every test.

If a test ends its process, another process runs the remaining tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing.promise import PromiseBroken, demand, promised
from tests.runner.plugin import breaks_a_promise
from tests.tidy.tree import ROOT

#: Each test starts pytest several times.
pytestmark = pytest.mark.usual(0)

RUN = """
import sys
from pathlib import Path
from tests.runner import __main__, groups, process

groups.TESTS = Path(sys.argv[1]) / "tests"
groups.GROUPS = (groups.Group("one", ("one",)), groups.Group("other", ("one/test_inner.py",)))
process.LIMIT_S = float(sys.argv[2])
sys.exit(__main__.main(*sys.argv[3:]))
"""
PASSES = "def test_it():\n    assert True\n"
#: A test that fails in its first tries.
UNSTEADY = """
from pathlib import Path

def test_before():
    pass

def test_it():
    tries = Path(__file__).with_suffix(".tries")
    with tries.open("a") as file:
        file.write("x")
    if len(tries.read_text()) <= {most}:
        {fails}

def test_after():
    pass
"""
BROKEN = "from holdfast.testing.promise import PromiseBroken"


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A folder with a test in each of three groups."""
    (tmp_path / "tests" / "one").mkdir(parents=True)
    (tmp_path / "tests" / "test_alone.py").write_text(PASSES)
    (tmp_path / "tests" / "one" / "test_outer.py").write_text(PASSES)
    (tmp_path / "tests" / "one" / "test_inner.py").write_text(PASSES)
    return tmp_path


def write(few: Path, fails: str, most: int = 9) -> None:
    """Let the inner test fail by this statement, in its first ``most`` tries."""
    inner = few / "tests" / "one" / "test_inner.py"
    inner.write_text(UNSTEADY.format(fails=fails, most=most))


def tried(few: Path) -> int:
    """Return how often the inner test was run."""
    return len((few / "tests" / "one" / "test_inner.tries").read_text())


def play(folder: Path, *names: str, limit: float = 60) -> subprocess.CompletedProcess[str]:
    """Run these groups, in a process that has no other children."""
    return subprocess.run(
        [sys.executable, "-c", RUN, str(folder), str(limit), *names],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "CI": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=110,
    )


def last(done: subprocess.CompletedProcess[str]) -> str:
    """Return the sum, without its time."""
    return done.stdout.splitlines()[-1].partition(" in ")[0]


def test_what_fails_each_time_fails_the_whole_and_is_shown(few: Path) -> None:
    write(few, "assert not 'wrong'")
    done = play(few)
    assert done.returncode == 1
    assert "assert not 'wrong'" in done.stdout
    assert last(done) == "1 failed, 4 passed"
    assert "other FAILED (1) in " in done.stderr
    assert "test_inner.py::test_it: AssertionError: assert not 'wrong'" in done.stderr
    assert tried(few) == 3


@pytest.mark.parametrize("most", [1, 2])
def test_a_test_that_passes_alone_is_reported_as_disturbed(few: Path, most: int) -> None:
    write(few, "assert not 'late'", most)
    done = play(few)
    assert done.returncode == 0, done.stderr
    assert last(done) == "5 passed, 1 rerun"
    told = f"passed at try {most + 1}: tests/one/test_inner.py::test_it: AssertionError: assert"
    assert told in done.stderr
    assert "(machine late by " in done.stderr
    log = (few / ".venv" / "unsteady.log").read_text()
    assert "def test_it():" in log
    assert tried(few) == most + 1


IN_A_GROUP = f"{BROKEN} as P; raise ExceptionGroup('some', [ValueError(), P('two holders')])"
IN_A_BODY = """from holdfast.testing.promise import promised
        with promised('one holder'):
            assert 2 == 1"""
BEHIND = f"""{BROKEN} as P
        try:
            raise P('two holders')
        finally:
            assert not 'cleaned'"""


SECOND = f"assert len(tries.read_text()) == 2\n        {BROKEN}\n        raise PromiseBroken"


@pytest.mark.parametrize(
    "fails",
    [f"{BROKEN}; raise PromiseBroken('two holders')", IN_A_GROUP, IN_A_BODY, BEHIND, SECOND],
)
def test_a_broken_promise_is_never_tried_again(few: Path, fails: str) -> None:
    write(few, fails, most=2)
    done = play(few)
    assert done.returncode == 1
    assert last(done) == "1 failed, 4 passed"
    assert "FAILED, a promise was broken: tests/one/test_inner.py::test_it" in done.stderr
    assert tried(few) == (2 if fails == SECOND else 1)


@pytest.mark.parametrize(
    "dies", ["import os; os.kill(os.getpid(), 9)", "import os; os._exit(0)", "raise SystemExit(3)"]
)
def test_a_process_that_dies_costs_one_test_and_the_rest_is_run(few: Path, dies: str) -> None:
    write(few, dies)
    done = play(few)
    assert done.returncode == 1
    assert last(done) == "1 failed, 4 passed"
    write(few, dies, most=tried(few) + 1)
    done = play(few)
    assert done.returncode == 0, done.stderr
    assert last(done) == "5 passed, 1 rerun"


def test_a_test_that_hangs_costs_one_test_and_shows_where(few: Path) -> None:
    write(few, "import time; time.sleep(50)", most=1)
    done = play(few, limit=5)
    assert done.returncode == 0, done.stderr
    assert last(done) == "5 passed, 1 rerun"
    assert "test_inner.py::test_it: it did not end within" in done.stderr
    assert 'test_inner.py", line ' in done.stdout


@pytest.mark.parametrize(
    "text, told",
    [
        ("import nothing_such", "BROKEN tests/one/test_inner.py"),
        ("", "BROKEN other: it did not end well after its tests"),
        ("import os\nos._exit(0)", "BROKEN other: no test was run"),
        (
            "import atexit, os\natexit.register(os._exit, 7)\ndef test_it():\n    pass",
            "BROKEN other: it did not end well after its tests: its process ended with 7",
        ),
    ],
)
def test_what_no_test_is_to_blame_for_is_red(few: Path, text: str, told: str) -> None:
    (few / "tests" / "one" / "test_inner.py").write_text(text)
    done = play(few)
    assert done.returncode == 1
    assert told in done.stderr


def test_many_failures_are_no_noise(few: Path) -> None:
    many = "import pytest\n@pytest.mark.parametrize('n', range(7))\ndef test_it(n):\n    assert 0"
    (few / "tests" / "one" / "test_inner.py").write_text(many)
    done = play(few)
    assert done.returncode == 1
    assert "again" not in done.stderr
    assert last(done) == "7 failed, 2 passed"


def test_some_groups_can_be_chosen(few: Path) -> None:
    write(few, "assert not 'wrong'")
    done = play(few, "test_alone.py", "one")
    assert done.returncode == 0
    assert last(done) == "2 passed"
    assert play(few, "noone").returncode == 64


def test_a_failed_assertion_about_a_promise_names_the_promise() -> None:
    with pytest.raises(PromiseBroken, match="one holder: 2 hold"), promised("one holder"):
        raise AssertionError("2 hold")
    with pytest.raises(ValueError, match="other"), promised("one holder"):
        raise ValueError("other")


def test_a_judge_distinguishes_bounds_on_time_from_promises() -> None:
    demand([], ("late",), "")
    with pytest.raises(AssertionError) as raised:
        demand(["late"], ("late",), "it was late")
    assert not breaks_a_promise(raised.value)
    with pytest.raises(PromiseBroken):
        demand(["late", "exclusion"], ("late",), "two hold")
