"""Bugs planted into the command ``holdfast``, and the test that must catch each.

The bug is planted into the processes that the test starts, not into the test itself.
"""

from __future__ import annotations

from .bugs import bug

WORK = "holdfast.cli.queue.work"
NURSERY = "holdfast.cli.queue.nursery"
ORIGIN = "tests/cli/test_origin.py"
TEST = "tests/cli/test_queue_work.py::test_"

MCP = "tests/cli/test_mcp.py::test_"

CLI = [
    bug(
        "an agent can use a name outside its prefix",
        f"{MCP}what_makes_no_sense_is_refused_with_a_remedy[sqlite]",
        ("holdfast.cli.mcp.agent", "        if not self._may(name):\n", "        if False:\n"),
        commands=True,
    ),
    bug(
        "a hold of an agent lasts as long as its session",
        f"{MCP}a_hold_ends_with_its_time_and_only_a_held_name_can_be_released[sqlite]",
        ("holdfast.cli.mcp.agent", "call_later(seconds, self._end)", "call_later(1e6, self._end)"),
        commands=True,
    ),
    bug(
        "a hold of an agent stays in the store after the agent was killed",
        f"{MCP}what_a_killed_session_holds_on_a_server_is_free_after_one_lease",
        ("holdfast.cli.mcp.agent", "TTL_S = 20.0\n", "TTL_S = 600.0\n"),
        commands=True,
    ),
    bug(
        "a run without a named store prints no warning",
        f"{ORIGIN}::test_run_without_a_named_store_warns_that_other_hosts_are_not_excluded",
        (
            "holdfast.cli.origin",
            'if unnamed(options) and not getattr(options, "quiet", False):',
            'if not options.url and unnamed(options) and options.command != "run":',
        ),
        commands=True,
    ),
    bug(
        "a run that requires a URL uses the local file",
        f"{ORIGIN}::test_a_run_that_requires_a_named_store_refuses_the_local_file",
        ("holdfast.cli.origin", '"require_url", False) and', '"require_url", False) and not'),
        commands=True,
    ),
    bug(
        "a command that fails completes its job",
        f"{TEST}the_exit_status_decides_the_outcome_of_the_job",
        (WORK, "        elif run.status == 0:\n", "        elif run.status >= 0:\n"),
        commands=True,
    ),
    bug(
        "a command that can't be executed costs its job an attempt",
        f"{TEST}what_cannot_be_executed_costs_no_job_an_attempt[no-such-command-127]",
        (
            WORK,
            '        self._insist(job, "release")\n        if not self.code:\n',
            '        self._insist(job, "retry", 0.0)\n        if not self.code:\n',
        ),
        commands=True,
    ),
    bug(
        "a job that is returned at the second signal counts as failed",
        f"{TEST}the_second_signal_returns_what_runs",
        (
            WORK,
            '            self._insist(job, "release")\n        else:\n',
            '            self._insist(job, "retry", 0.0)\n        else:\n',
        ),
        commands=True,
    ),
    bug(
        "the first signal ends the running commands",
        f"{TEST}the_first_signal_finishes_what_runs[15]",
        (
            WORK,
            "            if job.lost is not None or len(self.signals) > 1:\n",
            "            if job.lost is not None or self.signals:\n",
        ),
        commands=True,
    ),
    bug(
        "the command of a stopped worker outlives its lease",
        f"{TEST}the_command_of_a_stopped_worker_ends_before_its_job_can_pass_on",
        (
            NURSERY,
            "            if not ward.stopped and ward.deadline - ward.early <= now:\n",
            "            if not ward.stopped and now < 0:\n",
        ),
        seldom=True,
        commands=True,
    ),
    bug(
        "a killed worker leaves its commands behind",
        f"{TEST}a_worker_that_is_killed_takes_its_commands_along",
        (
            NURSERY,
            "            ward.child.signal(signal.SIGKILL)\n        while self.wards:\n",
            "            ward.stopped = True\n        while False:\n",
        ),
        seldom=True,
        commands=True,
    ),
    bug(
        "the command of a stopped holder process outlives its lease",
        "tests/cli/test_redis.py::test_a_stopped_holder_process_ends_its_command_before_the_next_grant",
        ("holdfast.cli.run", "            self._silent(child)\n", "            pass\n"),
        seldom=True,
        commands=True,
    ),
    bug(
        "a put into an unnamed store doesn't name the store",
        "tests/cli/test_origin.py"
        "::test_a_command_that_changes_an_unnamed_store_names_it[queue put]",
        ("holdfast.cli.queue.put", "        origin.tell(options, client.url)\n", ""),
        commands=True,
    ),
    bug(
        "a name that min_hold keeps occupied is shown as held",
        "tests/cli/test_look.py::test_ls_prints_the_end_of_min_hold_after_the_job",
        ("holdfast.cli.look", "    if first.kept:\n", "    if first.kept and first.meta:\n"),
        commands=True,
    ),
    bug(
        "a command whose label has a line feed never starts",
        "tests/cli/test_run.py::test_a_label_with_a_line_feed_reaches_the_command_unchanged",
        (
            "holdfast.cli.keep",
            '    owner = hold.owner.encode("utf-8", "surrogateescape").hex()\n',
            "    owner = hold.owner\n",
        ),
        (
            "holdfast.cli.run",
            'bytes.fromhex(owner).decode("utf-8", "surrogateescape")',
            "owner",
        ),
        commands=True,
    ),
    bug(
        "a daemon that a command leaves running is not mentioned",
        "tests/cli/test_left.py"
        "::test_what_the_command_leaves_running_is_mentioned_and_has_no_lock[daemon]",
        ("holdfast.cli.run", "self.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)", "pass"),
        commands=True,
    ),
]
