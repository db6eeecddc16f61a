"""Downloads of ``./dev``: tried three times, made once, never incomplete, reported if missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fetching import cache, programs, told, wheels
from tests.fetching.cache import have
from tests.fetching.programs import Thing
from tests.servers.process import until
from tests.tidy.tree import ROOT

#: A program that makes a thing, and ends only after the file ``go`` exists.
MAKE = """
import sys, time
from pathlib import Path
from tests.fetching.cache import have

place = Path(sys.argv[1])

def make(half):
    (half / "first").touch()
    with open(place / "made", "a") as made:
        made.write("once\\n")
    while not (place / "go").exists():
        time.sleep(0.01)
    (half / "last").touch()

folder = have(place / "thing-1", make)
assert (folder / "first").exists() and (folder / "last").exists()
"""


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The recorded pauses, which take no time."""
    made: list[float] = []
    monkeypatch.setattr(cache, "sleep", made.append)
    return made


def fail(half: Path) -> None:
    """An attempt that leaves a file behind and fails."""
    assert not [*half.iterdir()], "what another attempt has left"
    (half / "rest").touch()
    raise subprocess.CalledProcessError(1, "client", "no such version")


def touch(half: Path) -> None:
    """An attempt that works."""
    (half / "it").touch()


def begin(place: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MAKE, str(place)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )


def test_a_network_that_fails_twice_is_asked_a_third_time(
    tmp_path: Path, pauses: list[float]
) -> None:
    def make(half: Path) -> None:
        if len(pauses) < 2:
            fail(half)
        touch(half)

    assert [path.name for path in have(tmp_path / "thing-1", make).iterdir()] == ["it"]
    assert pauses == [2.0, 6.0]


def test_what_fails_three_times_leaves_nothing(tmp_path: Path, pauses: list[float]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        have(tmp_path / "thing-1", fail)
    assert pauses == [2.0, 6.0]
    assert [path.name for path in tmp_path.iterdir()] == ["thing-1.lock"]


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    (tmp_path / "thing-1").mkdir()
    assert have(tmp_path / "thing-1", fail) == tmp_path / "thing-1"
    # There is no lock file, either, so that a read-only folder is enough.
    assert [path.name for path in tmp_path.iterdir()] == ["thing-1"]


def test_two_processes_make_a_file_once_and_never_see_half_of_it(tmp_path: Path) -> None:
    # Given a process that is killed while it makes the thing, and another one that makes it
    killed = begin(tmp_path)
    until((tmp_path / "made").exists, "it has begun")
    killed.kill()
    killed.communicate()
    (tmp_path / "made").unlink()
    first = begin(tmp_path)
    until((tmp_path / "made").exists, "the first one has begun")
    # When a third process asks for it
    second = begin(tmp_path)
    assert second.stderr is not None
    assert "waiting for another ./dev, which gets thing-1" in second.stderr.readline()
    # Then it doesn't exist before it is complete, and both processes find it
    assert not (tmp_path / "thing-1").exists()
    (tmp_path / "go").touch()
    assert [one.wait(20) for one in (first, second)] == [0, 0]
    assert (tmp_path / "made").read_text() == "once\n"
    for one in (first, second):
        one.communicate()


def test_what_cannot_be_had_is_a_line_and_stops_nothing_else(
    tmp_path: Path, pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    there, failing, other = (tmp_path / name for name in ("there", "failing", "other"))
    there.mkdir()
    programs.main(
        [
            Thing("There 1", [there], ("no-such-tool",), lambda: have(there, fail)),
            Thing("Failing 2", [failing], (), lambda: have(failing, fail)),
            Thing("Toolless 3", [tmp_path / "t"], ("no-such-tool",), lambda: pytest.fail("ran")),
            Thing("Other 4", [other], (), lambda: have(other, touch)),
        ]
    )
    out, err = capsys.readouterr()
    assert [line.partition(",")[0] for line in out.splitlines()] == [
        "Failing 2: it could not be fetched or built",
        "Toolless 3: no no-such-tool here; install what is missing",
    ]
    assert "no such version" in err
    assert other.is_dir()


@pytest.mark.parametrize("ci, code", [("true", 1), ("", 0)])
def test_missing_things_are_listed_and_fail_in_ci(
    ci: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CI", ci)
    assert told.told_missing(tmp_path / "missing") == 0
    (tmp_path / "missing").write_text("a: b\nc: d\n")
    assert told.told_missing(tmp_path / "missing") == code
    assert capsys.readouterr().err == "dev: MISSING a: b\ndev: MISSING c: d\n"


#: A stand-in for Python: it makes an environment of itself, and records its calls.
PYTHON = """#!/bin/sh
echo "python $*" >>"$CALLS"
case $* in
*"-m venv"*) mkdir -p "$5/bin" && cp "$0" "$5/bin/python" ;;
*wheels*) exit "${WHEELS:-0}" ;;
*programs*) echo "Redisson 3: not here" ;;
esac
"""
#: A stand-in for apt-get: it can install everything except galera-4.
APT = """#!/bin/sh
echo "apt-get $*" >>"$CALLS"
case $* in *galera*) exit 100 ;; esac
"""


def play(place: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call dev in a clone where all programs but the simplest ones are stand-ins or missing."""
    tools = place / "tools"
    tools.mkdir(exist_ok=True)
    stands = {"python3": PYTHON, "apt-get": APT, "id": "#!/bin/sh\necho 0\n"}
    stands["sleep"] = '#!/bin/sh\necho "sleep $*" >>"$CALLS"\n'
    for name, text in stands.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    for name in ("awk", "cat", "cksum", "cp", "dirname", "mkdir", "mv", "rm", "sh"):
        (tools / name).unlink(missing_ok=True)
        (tools / name).symlink_to(shutil.which(name) or "")
    for name in ("dev", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, place)
    return subprocess.run(
        [place / "dev", *words],
        capture_output=True,
        text=True,
        env={"PATH": str(tools), "CALLS": str(place / "calls"), **environment},
        timeout=60,
    )


def test_a_package_that_cannot_be_had_stops_neither_the_others_nor_the_tests(
    tmp_path: Path,
) -> None:
    done = play(tmp_path, "test", "some")
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    # Three attempts with all packages, and then one for each package
    installs = [call.split("recommends ")[1] for call in calls if "recommends" in call]
    assert installs[0] == installs[1] == installs[2] == " ".join(installs[3:])
    assert [call for call in calls if "sleep" in call] == ["sleep 2", "sleep 6"]
    # And pytest has run; the file contains what it reports then
    assert calls[-1] == "python -m tests.fetching.told some"
    assert (tmp_path / ".venv" / "missing").read_text().splitlines() == [
        "galera-4: apt-get could not install it, see above",
        "Redisson 3: not here",
    ]


def test_help_makes_no_environment(tmp_path: Path) -> None:
    done = play(tmp_path, "bench", "--help")
    assert (done.returncode, done.stdout.partition(" ")[0]) == (0, "usage:")
    assert not (tmp_path / "calls").exists()
    assert not (tmp_path / ".venv").exists()


def test_nothing_runs_without_the_python_packages(tmp_path: Path) -> None:
    done = play(tmp_path, "test", "some", WHEELS="69")
    assert done.returncode == 69
    assert (tmp_path / "calls").read_text().splitlines()[-1].endswith("wheels test check")


def test_other_wheels_are_wanted_when_versions_or_groups_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {wheels.key("test"), wheels.key("test", "check")}
    changed = tmp_path / "constraints.txt"
    changed.write_text(cache.CONSTRAINTS.read_text() + "more==1\n")
    monkeypatch.setattr(wheels, "CONSTRAINTS", changed)
    assert len(seen | {wheels.key("test")}) == 3
