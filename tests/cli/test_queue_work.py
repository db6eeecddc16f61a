"""``holdfast queue work``: the outcome of jobs, and the end of commands whose worker fails.

The store is in the memory of the worker's process: a program puts the jobs, becomes the worker, and
prints their states at the end.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.queue import nursery
from holdfast.cli.queue.work import LOOK_S
from tests.cli.world import ROOT, alive, children, until

PROGRAM = """
import json, sys
from holdfast import Client
from holdfast.cli import main
asked = json.loads(sys.argv[1])
queue = Client("memory://").queue("q", ttl=asked["ttl"])
queue.put_many(asked["jobs"])
code = main(["queue", "work", *asked["words"]])
for one in queue.jobs():
    print("job", one.payload[1:].decode(), one.state.value, one.attempts, one.reason)
record = queue.stats()
print("sum", record.waiting, record.taken, record.dead, record.done)
sys.exit(code)
"""
BOUND_S = 60.0


class Worker:
    """The worker as a process."""

    def __init__(self, folder: Path, jobs: list[Any], *words: str, ttl: float = 30.0) -> None:
        env = {
            **os.environ, "HOLDFAST_URL": "memory://", "PYTHONPATH": str(ROOT / "src"),
            "MARK": str(folder / "mark"),
        }  # fmt: skip
        asked = json.dumps({"jobs": jobs, "words": words, "ttl": ttl})
        self.mark = folder / "mark"
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, asked],
            env=env, cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def command(self) -> int:
        """Return the process id of the command, which writes it to a file."""
        until(lambda: self.mark.exists() and self.mark.read_text().endswith("\n"), "it runs")
        return int(self.mark.read_text().split()[0])

    def nursery(self) -> int:
        """Return the process id of the supervisor, which starts the commands."""
        (pid,) = children(self.process.pid)
        return pid

    def end(self) -> tuple[int, list[str], str]:
        """Wait for the worker; return its exit status, the printed job states, and its stderr."""
        out, err = self.process.communicate(timeout=BOUND_S)
        return self.process.returncode, out.splitlines(), err

    def clear(self) -> None:
        """Kill the processes that a failed test leaves: the worker and all its descendants."""
        if self.process.poll() is None:
            found = [self.process.pid]
            for pid in found:
                found += children(pid)
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.communicate()


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    """Start a worker in a folder of the test; it is killed after the test, also if that fails."""
    begun: list[Worker] = []

    def start(jobs: list[Any], *words: str, ttl: float = 30.0) -> Worker:
        begun.append(Worker(tmp_path, jobs, *words, ttl=ttl))
        return begun[-1]

    yield start
    for one in begun:
        one.clear()


Work = Callable[..., Worker]
RUNS = "echo $$ > $MARK; "
QUICK = ("--retry-delay", "0", "--retry-delay-max", "0")


def test_the_payload_is_its_stdin_and_the_rest_its_environment(work: Work) -> None:
    jobs = [
        {"payload": "text \u2603", "group": "bank:1", "id": "o1"},
        {"payload": {"a": [1, 2]}, "id": "o2"},
    ]
    script = "cat; echo; echo $HOLDFAST_QUEUE ${HOLDFAST_GROUP-none} $HOLDFAST_JOB_ID \
$HOLDFAST_ATTEMPT; test $HOLDFAST_FENCE -gt 0; ls /proc/self/fd | wc -l"
    code, out, err = work(jobs, "q", "--drain", "-c", script).end()
    assert code == 0, err
    assert out[-1] == "sum 0 0 0 2"
    assert out[:2] == ["text \u2603", "q bank:1 o1 1"]
    assert out[3:5] == ['{"a":[1,2]}', "q none o2 1"]
    assert "2 jobs done" in err


def test_jobs_of_a_group_run_in_order_and_groups_side_by_side(work: Work) -> None:
    jobs = [{"payload": f"{group}{n}", "group": group} for n in range(3) for group in "ab"]
    # Each of the first two ends only when the other one runs
    script = (
        "job=$(cat); touch run-$job; case $job in a0) other=b0;; b0) other=a0;; *) other=$job;; "
        "esac; while ! test -e run-$other; do sleep 0.01; done; echo $job"
    )
    code, out, err = work(
        jobs, "--concurrency", "2", "--drain", "q", "--", "sh", "-c", script
    ).end()
    assert (code, out[-1]) == (0, "sum 0 0 0 6"), err
    for group in "ab":
        assert [one for one in out[:-1] if one[0] == group] == [f"{group}{n}" for n in range(3)]


def test_the_exit_status_decides_the_outcome_of_the_job(work: Work) -> None:
    jobs = ["exit 0", "exit 3", "exit 65", "kill -9 $$"]
    words = ("--drain", *QUICK, "--max-attempts", "2", "-c", 'sh -c "$(cat)"; exit')
    code, out, err = work(jobs, "q", *words).end()
    assert (code, out[-1]) == (0, "sum 0 0 3 1"), err
    assert out[:-1] == [
        "job exit 3 dead 2 exit status 3",
        "job exit 65 dead 1 exit status 65",
        "job kill -9 $$ dead 2 ended by signal 9",
    ]
    assert err.count("it is retried") == 2
    assert err.count("it is a dead letter") == 3
    # And the status of a dead letter can be chosen
    words = ("--drain", "--dead-exit-code", "9", "-q", "-c", "exit 9")
    code, out, _ = work(["x"], "q", *words).end()
    assert (code, out) == (0, ["job x dead 1 exit status 9", "sum 0 0 1 0"])


@pytest.mark.parametrize("command, code", [("no-such-command", 127), ("/etc", 126)])
def test_what_cannot_be_executed_costs_no_job_an_attempt(
    work: Work, command: str, code: int
) -> None:
    got, out, err = work(["x", "y"], "q", "--concurrency", "2", "--", command).end()
    assert (got, out[-1]) == (code, "sum 2 0 0 0")
    assert [line.split()[3] for line in out[:-1]] == ["0", "0"]
    assert "cannot run" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_finishes_what_runs(work: Work, tmp_path: Path, number: int) -> None:
    script = RUNS + "while ! test -e go; do sleep 0.01; done"
    worker = work([{"payload": n, "group": "g"} for n in range(2)], "q", "-c", script)
    worker.command()
    worker.process.send_signal(number)
    time.sleep(2 * LOOK_S)  # it has seen the running command, and lets it continue
    (tmp_path / "go").touch()
    code, out, err = worker.end()
    assert (code, out[-1]) == (0, "sum 1 0 0 1"), err


def test_the_second_signal_returns_what_runs(work: Work) -> None:
    # Also if the command heeds no TERM: then it is killed
    deaf = "trap '' TERM; " + RUNS + "sleep 60 & wait; wait"
    for script, *words in ([RUNS + "exec sleep 60"], [deaf, "--kill-after", "200ms"]):
        worker = work(["x"], "q", *words, "-c", script)
        command = worker.command()
        worker.process.terminate()
        until(lambda: alive(worker.process.pid), "it waits for its command", 1)  # noqa: B023
        worker.process.terminate()
        until(lambda: _sent(worker, command), "its command is ended")  # noqa: B023
        code, out, err = worker.end()
        assert (code, out) == (128 + signal.SIGTERM, ["job x waiting 0 ", "sum 1 0 0 0"]), err
        worker.mark.unlink()


def _sent(worker: Worker, command: int) -> bool:
    """Send TERM again until the command has ended, because two signals can merge into one."""
    if alive(command) and worker.process.poll() is None:
        worker.process.terminate()
    return not alive(command)


def test_a_worker_that_is_killed_takes_its_commands_along(work: Work) -> None:
    script = RUNS + "trap '' TERM; sleep 60 & echo $! >> $MARK; wait"
    worker = work(["x"], "q", "-c", script)
    command = worker.command()
    nursery = worker.nursery()
    until(lambda: len(worker.mark.read_text().split()) == 2, "it has started another")
    other = int(worker.mark.read_text().split()[1])
    worker.process.kill()
    until(lambda: not (alive(command) or alive(other)), "what it has started is gone")
    until(lambda: not alive(nursery), "the supervisor is gone")
    worker.end()


def test_a_killed_supervisor_ends_the_worker(work: Work) -> None:
    worker = work(["x"], "q", "-c", RUNS + "sleep 60 & echo $! >> $MARK; wait")
    command = worker.command()
    until(lambda: len(worker.mark.read_text().split()) == 2, "it has started another")
    other = int(worker.mark.read_text().split()[1])
    os.kill(worker.nursery(), signal.SIGKILL)
    code, out, err = worker.end()
    assert (code, out[-1]) == (76, "sum 1 0 0 0"), err
    until(lambda: not (alive(command) or alive(other)), "what it has started is gone")


def test_the_command_of_a_stopped_worker_ends_before_its_job_can_pass_on(work: Work) -> None:
    # Given a command that ignores TERM, and a worker with a short lease
    script = "trap '' TERM; " + RUNS + "while :; do date +%s%N > beat.new; mv beat.new beat; done"
    worker = work(["x"], "q", "--ttl", "3s", "-c", script, ttl=3.0)
    command = worker.command()
    # When the worker is stopped
    worker.process.send_signal(signal.SIGSTOP)
    until(lambda: not alive(command), "the supervisor has killed the command")
    # Then the worker detects this when it continues, and the attempt has failed
    worker.process.send_signal(signal.SIGTERM)
    worker.process.send_signal(signal.SIGCONT)
    code, out, err = worker.end()
    assert (code, out[-1].split()[-1]) == (0, "0"), err
    assert out[-1].split()[1:3] == ["1", "0"]


def test_a_lease_is_renewed_while_the_command_runs(work: Work) -> None:
    worker = work(["x"], "q", "--ttl", "6s", "--drain", "-c", "sleep 7")
    code, out, err = worker.end()
    assert (code, out) == (0, ["sum 0 0 0 1"]), err


def test_ctrl_z_does_not_stop_it(work: Work, tmp_path: Path) -> None:
    worker = work(["x"], "q", "--drain", "-c", RUNS + "while ! test -e go; do sleep 0.01; done")
    worker.command()
    worker.process.send_signal(signal.SIGTSTP)
    (tmp_path / "go").touch()
    assert worker.end()[:2] == (0, ["sum 0 0 0 1"])


def test_a_job_that_cannot_be_started_is_answered_alone_and_named(work: Work) -> None:
    # No file can be longer than 20 KiB: there is room for one payload and not for the other.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_480, hard))
    try:
        jobs = [
            {"payload": "small", "group": "a", "id": "small"},
            {"payload": "x" * 100_000, "group": "b", "id": "large"},
        ]
        words = ("q", "--concurrency", "2", *QUICK, "-c", "sleep 1; cat > /dev/null")
        worker = work(jobs, *words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    code, said, err = worker.end()
    assert code == 126, err
    assert said[-1] == "sum 1 0 0 1", said
    assert said[0].split()[2:4] == ["waiting", "0"], said
    assert "for job 'large' of 'b': File too large" in err, err


def test_a_payload_lies_in_a_file_where_it_may_not_be_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(name: str) -> int:
        raise PermissionError(errno.EPERM, name)

    monkeypatch.setattr(os, "memfd_create", forbidden)
    with nursery._file() as file:
        assert os.read(nursery._filled(file, "eA=="), 9) == b"x"


def test_drain_prints_the_number_of_jobs_that_wait_until_later(work: Work) -> None:
    jobs = [{"payload": "x", "group": "g"}] * 3
    words = ("q", "--drain", "--min-interval", "1h", "--", "true")
    code, out, err = work(jobs, *words).end()
    assert (code, out[-1]) == (0, "sum 2 0 0 1"), err
    assert "'q': 1 job done, 2 jobs wait until later" in err
