"""The verbs of ``holdfast queue`` and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ...core import checks
from ..options import byte, checked, duration, name, number, url, whole

PUT = """\
examples:
  holdfast queue put refunds '{"order": 42}' --json --group bank:4001 --id order:42
  holdfast queue put thumbnails *.jpg                one job for each, in any order
  jq -c '.[]' orders.json | holdfast queue put refunds --json --group bank:4001
"""
WORK = """\
examples:
  holdfast queue work refunds --min-interval 500ms -- ./refund.sh
  holdfast queue work thumbnails --concurrency 4 --drain -- sh -c 'convert "$(cat)" ...'

exit status of the command:
  0 the job is done   65 it becomes a dead letter (--dead-exit-code)   other: it is retried
"""
#: The exit status with which a command reports that a job can never be done (EX_DATAERR).
DEAD_STATUS = 65


def commands(queue: argparse.ArgumentParser) -> None:
    """Add the verbs of ``queue``."""
    queue.description = (
        "Serial queues: jobs are accepted now and executed in order, one at a time per group."
    )
    queue.epilog = "`holdfast queue VERB --help` prints the options of a verb."
    verbs = queue.add_subparsers(prog="holdfast queue", dest="verb", metavar="VERB", required=True)
    for verb, (fill, text) in VERBS.items():
        fill(verbs.add_parser(verb, help=text))


def _put(put: argparse.ArgumentParser) -> None:
    put.usage = "holdfast queue put [options] NAME [PAYLOAD ...]"
    put.description = (
        "Put jobs into the queue NAME: one for each PAYLOAD, or else for each line of stdin. "
        "With exit status 0 the store has all of them."
    )
    put.epilog = PUT
    name(put, "name of the queue")
    put.add_argument("payloads", metavar="PAYLOAD", nargs="*", help="payload of one job")
    form = put.add_argument_group("format of a payload").add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="JSON (default: text)")
    form.add_argument(
        "--jobs", action="store_true",
        help="a whole job in JSON: {\"payload\": ..., \"group\": ..., \"id\": ..., \"delay\": ...}",
    )  # fmt: skip
    job = put.add_argument_group("the jobs")
    job.add_argument(
        "--group", metavar="GROUP", help="group, whose jobs run one at a time, in order"
    )
    job.add_argument(
        "--id", metavar="ID", help="id; the job is dropped if its id was accepted before"
    )
    job.add_argument(
        "--delay", metavar="DUR", type=duration(0.0, 3.2e7), default=0.0,
        help="minimum time before the job runs (default 0)",
    )  # fmt: skip
    job.add_argument(
        "--dedup-window", metavar="DUR", type=duration(0.0, 2.592e6),
        help="time for which an id is remembered (default 1h)",
    )  # fmt: skip
    other = put.add_argument_group("other options")
    other.add_argument("--ids", action="store_true", help="print the id of each job")
    other.add_argument("-q", "--quiet", action="store_true", help="don't print the number of jobs")
    url(other)


def _ls(ls: argparse.ArgumentParser) -> None:
    ls.description = "List the queues with the number of jobs in each state."
    ls.add_argument(
        "prefix", metavar="PREFIX", nargs="?", default="", help="only names that begin with PREFIX"
    )
    ls.add_argument(
        "--rate", metavar="SECS", nargs="?", type=duration(0.1, 3600.0), const=1.0,
        help="measure the jobs per second over SECS seconds (default 1)",
    )  # fmt: skip
    form = ls.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON with all fields")
    form.add_argument("--names", action="store_true", help="print only the names, one per line")
    url(ls)


def _show(show: argparse.ArgumentParser) -> None:
    show.description = "Show the jobs of a queue in the order of acceptance."
    name(show, "name of the queue")
    show.add_argument("--group", metavar="GROUP", help="only this group ('': ungrouped jobs)")
    show.add_argument(
        "--state", metavar="STATE", choices=["waiting", "delayed", "taken", "dead"],
        help="only jobs that are waiting, delayed, taken or dead",
    )  # fmt: skip
    _listing(show)


def _dead(dead: argparse.ArgumentParser) -> None:
    dead.description = "List the dead letters of a queue: the jobs that are given up, and why."
    name(dead, "name of the queue")
    dead.add_argument("--group", metavar="GROUP", help="only this group ('': ungrouped jobs)")
    _listing(dead)


def _listing(of: argparse.ArgumentParser) -> None:
    of.add_argument(
        "--limit", metavar="N", type=checked(whole), default=100,
        help="maximum number of jobs (default 100)",
    )  # fmt: skip
    of.add_argument("--json", action="store_true", help="print JSON with all fields")
    url(of)


def _work(work: argparse.ArgumentParser) -> None:
    work.usage = "holdfast queue work [options] NAME [--] COMMAND [ARGUMENT ...]"
    work.description = (
        "Run a command for each job of the queue NAME. The command gets the payload on stdin, and "
        "HOLDFAST_FENCE, HOLDFAST_GROUP, HOLDFAST_JOB_ID and HOLDFAST_ATTEMPT in its environment."
    )
    work.epilog = WORK
    name(work, "name of the queue")
    work.add_argument("argv", metavar="COMMAND", nargs="*", help="command to run, without a shell")
    how = work.add_argument_group("execution")
    how.add_argument(
        "--concurrency", metavar="N", type=checked(whole), default=1,
        help="commands to run in parallel, at most one per group (default 1)",
    )  # fmt: skip
    how.add_argument("--drain", action="store_true", help="end when no job is due")
    how.add_argument(
        "-c", "--command", dest="script", metavar="STRING", help="run STRING with $SHELL -c"
    )
    how.add_argument(
        "--dead-exit-code", dest="dead", metavar="N", type=checked(byte), default=DEAD_STATUS,
        help="exit status that makes the job a dead letter (default 65)",
    )  # fmt: skip
    how.add_argument(
        "--kill-after", metavar="DUR", type=duration(0.0, 3600.0), default=10.0,
        help="maximum time from TERM to KILL when a command must stop (default 10s)",
    )  # fmt: skip
    _pace(work)
    other = work.add_argument_group("other options")
    other.add_argument(
        "-q", "--quiet", action="store_true", help="don't print failed jobs and the total"
    )
    other.add_argument(
        "--label", metavar="TEXT", type=checked(checks.owner),
        help="last part of the owner that others see (default: name of the command)",
    )  # fmt: skip
    url(other)


def _pace(work: argparse.ArgumentParser) -> None:
    """Add the settings of a queue; all its workers should use the same values."""
    pace = work.add_argument_group("the queue, the same for all its workers")
    pace.add_argument(
        "--min-interval", metavar="DUR", type=duration(0.0, 86_400.0),
        help="minimum time between two executions in one group (default 0)",
    )  # fmt: skip
    pace.add_argument(
        "--interval-from", metavar="WHEN", choices=["ack", "take"],
        help="count this time from the end (ack) or the start (take) of the last execution "
        "(default ack)",
    )  # fmt: skip
    pace.add_argument(
        "--rate", metavar="N", type=checked(number),
        help="maximum deliveries per second in the whole queue",
    )  # fmt: skip
    pace.add_argument(
        "--ttl", metavar="DUR", type=duration(0.01, 86_400.0),
        help="lease length, renewed while the command runs (default 30s)",
    )  # fmt: skip
    pace.add_argument(
        "--max-attempts", metavar="N", type=checked(whole),
        help="attempts after which a job becomes a dead letter (default 10)",
    )  # fmt: skip
    pace.add_argument(
        "--retry-delay", metavar="DUR", type=duration(0.0, 3.2e7),
        help="pause before the first retry; it doubles each time (default 1s)",
    )  # fmt: skip
    pace.add_argument(
        "--retry-delay-max", metavar="DUR", type=duration(0.0, 3.2e7),
        help="maximum pause before a retry (default 5m)",
    )  # fmt: skip
    pace.add_argument(
        "--on-dead", metavar="WHAT", choices=["skip", "block"],
        help="after a dead letter its group continues (skip) or waits (block) (default skip)",
    )  # fmt: skip


def _retry(retry: argparse.ArgumentParser) -> None:
    retry.description = (
        "Retry the dead letters that are named, or all. A letter that blocks its group continues "
        "at its place, any other at the end of its group. Attempts count from 1 again."
    )
    name(retry, "name of the queue")
    retry.add_argument("ids", metavar="ID", nargs="*", help="ids, as `dead` prints them")
    retry.add_argument("--all", action="store_true", help="retry all dead letters")
    url(retry)


def _purge(purge: argparse.ArgumentParser) -> None:
    purge.description = "Remove jobs: those named, those of one state, or all. Taken jobs stay."
    name(purge, "name of the queue")
    purge.add_argument("ids", metavar="ID", nargs="*", help="ids, as `show` prints them")
    purge.add_argument(
        "--state", metavar="STATE", choices=["waiting", "delayed", "dead"],
        help="only jobs that are waiting, delayed or dead",
    )  # fmt: skip
    purge.add_argument("-y", "--yes", action="store_true", help="don't ask for confirmation")
    url(purge)


VERBS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "put": (_put, "put jobs into a queue"),
    "ls": (_ls, "list the queues with the number of jobs in each state"),
    "show": (_show, "show the jobs of a queue"),
    "work": (_work, "run a command for each job"),
    "retry": (_retry, "retry dead letters"),
    "dead": (_dead, "list the dead letters and their reasons"),
    "purge": (_purge, "remove jobs permanently"),
}
