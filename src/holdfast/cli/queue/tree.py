"""The verbs of ``holdfast queue`` and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ...core import checks
from ..options import byte, checked, duration, name, number, url, whole

PUT = """\
examples:
  holdfast queue put refunds '{"order": 42}' --json --group bank:4001 --id order:42
  holdfast queue put thumbnails *.jpg                one job each, in no order
  jq -c '.[]' orders.json | holdfast queue put refunds --json --group bank:4001
"""
WORK = """\
examples:
  holdfast queue work refunds --min-interval 500ms -- ./refund.sh
  holdfast queue work thumbnails --concurrency 4 --drain -- sh -c 'convert "$(cat)" ...'

exit status of the command:
  0 the job is done   65 it never can be (see --dead-exit-code)   else it is tried again
"""
#: The exit status with which a command reports that a job can never be done (EX_DATAERR).
DEAD_STATUS = 65


def commands(queue: argparse.ArgumentParser) -> None:
    """Add the verbs of ``queue``."""
    queue.description = (
        "Serial queues: jobs are accepted now and executed in order, one at a time per group."
    )
    queue.epilog = "`holdfast queue VERB --help` explains a verb."
    verbs = queue.add_subparsers(prog="holdfast queue", dest="verb", metavar="VERB", required=True)
    for verb, (fill, text) in VERBS.items():
        fill(verbs.add_parser(verb, help=text))


def _put(put: argparse.ArgumentParser) -> None:
    put.usage = "holdfast queue put [options] NAME [PAYLOAD ...]"
    put.description = (
        "Put jobs into the queue NAME: the payloads that are named, or else the lines of stdin. "
        "With exit status 0 the store has all of them."
    )
    put.epilog = PUT
    name(put, "which queue")
    put.add_argument("payloads", metavar="PAYLOAD", nargs="*", help="what the job carries")
    form = put.add_argument_group("what a payload is").add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="JSON, not text")
    form.add_argument(
        "--jobs", action="store_true",
        help="a whole job in JSON: {\"payload\": ..., \"group\": ..., \"id\": ..., \"delay\": ...}",
    )  # fmt: skip
    job = put.add_argument_group("the jobs")
    job.add_argument(
        "--group", metavar="GROUP", help="run in order with others of this group; else in any"
    )
    job.add_argument("--id", metavar="ID", help="drop it if one with this id was accepted before")
    job.add_argument(
        "--delay", metavar="DUR", type=duration(0.0, 3.2e7), default=0.0, help="not before then"
    )
    job.add_argument(
        "--dedup-window", metavar="DUR", type=duration(0.0, 2.592e6),
        help="how long an id is remembered (1h)",
    )  # fmt: skip
    other = put.add_argument_group("and")
    other.add_argument("--ids", action="store_true", help="print the id of each job")
    other.add_argument("-q", "--quiet", action="store_true", help="say nothing of what was put")
    url(other)


def _ls(ls: argparse.ArgumentParser) -> None:
    ls.description = "List the queues: how many jobs stand where."
    ls.add_argument(
        "prefix", metavar="PREFIX", nargs="?", default="", help="only names that begin so"
    )
    ls.add_argument(
        "--rate", metavar="SECS", nargs="?", type=duration(0.1, 3600.0), const=1.0,
        help="look twice, so far apart, and say how many per second (1s)",
    )  # fmt: skip
    form = ls.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON, with all there is")
    form.add_argument("--names", action="store_true", help="the bare names, one per line")
    url(ls)


def _show(show: argparse.ArgumentParser) -> None:
    show.description = "Show the jobs of a queue, in the order in which they were accepted."
    name(show, "which queue")
    show.add_argument("--group", metavar="GROUP", help="of this group ('': those without one)")
    show.add_argument(
        "--state", metavar="STATE", choices=["waiting", "delayed", "taken", "dead"],
        help="those that are waiting, delayed, taken or dead",
    )  # fmt: skip
    _listing(show)


def _dead(dead: argparse.ArgumentParser) -> None:
    dead.description = "List the dead letters of a queue: the jobs that were given up, and why."
    name(dead, "which queue")
    dead.add_argument("--group", metavar="GROUP", help="of this group ('': those without one)")
    _listing(dead)


def _listing(of: argparse.ArgumentParser) -> None:
    of.add_argument(
        "--limit", metavar="N", type=checked(whole), default=100, help="at most N (100)"
    )
    of.add_argument("--json", action="store_true", help="as JSON, with all there is")
    url(of)


def _work(work: argparse.ArgumentParser) -> None:
    work.usage = "holdfast queue work [options] NAME [--] COMMAND [ARGUMENT ...]"
    work.description = (
        "Run a command for each job of the queue NAME: the payload on its stdin, what else there "
        "is to know in HOLDFAST_FENCE, HOLDFAST_GROUP, HOLDFAST_JOB_ID and HOLDFAST_ATTEMPT."
    )
    work.epilog = WORK
    name(work, "which queue")
    work.add_argument("argv", metavar="COMMAND", nargs="*", help="the command; no shell between")
    how = work.add_argument_group("how")
    how.add_argument(
        "--concurrency", metavar="N", type=checked(whole), default=1,
        help="N at a time, each of another group (1)",
    )  # fmt: skip
    how.add_argument("--drain", action="store_true", help="end when nothing is due")
    how.add_argument(
        "-c", "--command", dest="script", metavar="STRING", help="run STRING in $SHELL -c"
    )
    how.add_argument(
        "--dead-exit-code", dest="dead", metavar="N", type=checked(byte), default=DEAD_STATUS,
        help="the exit status that makes a job a dead letter (65)",
    )  # fmt: skip
    how.add_argument(
        "--kill-after", metavar="DUR", type=duration(0.0, 3600.0), default=10.0,
        help="KILL this long after TERM when a job is lost or returned (10s)",
    )  # fmt: skip
    _pace(work)
    other = work.add_argument_group("and")
    other.add_argument("-q", "--quiet", action="store_true", help="say nothing of jobs that fail")
    other.add_argument(
        "--label", metavar="TEXT", type=checked(checks.owner),
        help="last part of the owner that others see (the command's name)",
    )  # fmt: skip
    url(other)


def _pace(work: argparse.ArgumentParser) -> None:
    """Add the settings of a queue; all its workers should give the same."""
    pace = work.add_argument_group("the queue, the same for all its workers")
    pace.add_argument(
        "--min-interval", metavar="DUR", type=duration(0.0, 86_400.0),
        help="between two executions in one group (0)",
    )  # fmt: skip
    pace.add_argument(
        "--interval-from", metavar="WHEN", choices=["ack", "take"],
        help="...from the end (ack) or the start (take) of the last one (ack)",
    )  # fmt: skip
    pace.add_argument(
        "--rate", metavar="N", type=checked(number), help="at most N per second in all"
    )
    pace.add_argument(
        "--ttl", metavar="DUR", type=duration(0.01, 86_400.0),
        help="length of the lease, renewed while the command runs (30s)",
    )  # fmt: skip
    pace.add_argument(
        "--max-attempts", metavar="N", type=checked(whole), help="then it is a dead letter (10)"
    )
    pace.add_argument(
        "--retry-delay", metavar="DUR", type=duration(0.0, 3.2e7), help="the first pause (1s)"
    )
    pace.add_argument(
        "--retry-delay-max", metavar="DUR", type=duration(0.0, 3.2e7), help="the longest pause (5m)"
    )
    pace.add_argument(
        "--on-dead", metavar="WHAT", choices=["skip", "block"],
        help="a dead letter lets its group go on (skip) or holds it back (block) (skip)",
    )  # fmt: skip


def _retry(retry: argparse.ArgumentParser) -> None:
    retry.description = (
        "Have dead letters tried again, these or all. One that holds back its group goes on where "
        "it stands, any other at the end of its group; its attempts count anew."
    )
    name(retry, "which queue")
    retry.add_argument("ids", metavar="ID", nargs="*", help="which, by the id that `dead` shows")
    retry.add_argument("--all", action="store_true", help="all of them")
    url(retry)


def _purge(purge: argparse.ArgumentParser) -> None:
    purge.description = "Remove jobs: these, or those that stand so, or all. What is taken stays."
    name(purge, "which queue")
    purge.add_argument("ids", metavar="ID", nargs="*", help="which, by the id that `show` shows")
    purge.add_argument(
        "--state", metavar="STATE", choices=["waiting", "delayed", "dead"],
        help="only those that are waiting, delayed or dead",
    )  # fmt: skip
    purge.add_argument("-y", "--yes", action="store_true", help="don't ask")
    url(purge)


VERBS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str]] = {
    "put": (_put, "put jobs into a queue"),
    "ls": (_ls, "list the queues, and how many jobs stand where"),
    "show": (_show, "show the jobs of a queue"),
    "work": (_work, "run a command for each job"),
    "retry": (_retry, "have dead letters tried again"),
    "dead": (_dead, "list the dead letters, and why they were given up"),
    "purge": (_purge, "remove jobs for good"),
}
