"""Bugs planted into holds across commands and their tokens, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

TAKE = "holdfast.cli.across.take"
TOKENS = "holdfast.cli.across.tokens"
TEST = "tests/cli/test_across.py::test_"
HELD = "holdfast.cli.across.held"
ENDING = "holdfast.cli.across.ending"
ENDED = "tests/cli/test_across_ended.py::test_"
SEVERAL = "tests/cli/test_across_several.py::test_"

ACROSS = [
    bug(
        "a token with a wrong checksum is accepted",
        "tests/core/test_token.py::test_a_token_is_refused_with_any_letter_cut_off_or_changed",
        (
            "holdfast.core.token",
            "    if found != _sum(raw) or base64.",
            "    if not found and base64.",
        ),
    ),
    bug(
        "release ends a hold that another process has adopted",
        "tests/cli/test_across_token.py::test_check_names_the_adopter_and_reports_the_release",
        ("holdfast.core.across", "    await renew(ctx, passed, TTL_S_MIN, until)\n", ""),
        (
            "holdfast.core.across",
            "lambda within: ctx.store.leave(leave, within), until",
            "lambda within: ctx.store.break_(spec.name, passed.fence, within), until",
        ),
    ),
    bug(
        "check computes the expiry from the local wall clock",
        "tests/cli/test_across_token.py::test_renew_lengthens_by_the_clock_of_the_store",
        (
            "holdfast.cli.across.held",
            "    left = run_sync(across.find(client._ctx, passed)).expires_in\n",
            "    left = passed.fence / 1e6 + passed.claim.spec.ttl - __import__('time').time()\n",
        ),
    ),
    bug(
        "any user can read a token file",
        f"{TEST}a_token_file_is_for_its_owner_alone_and_is_removed[0]",
        (TOKENS, "os.fchmod(fd, 0o600)", "os.fchmod(fd, 0o644)"),
        commands=True,
    ),
    bug(
        "a token file that other users can read is accepted",
        "tests/cli/test_across_token.py"
        "::test_a_token_file_open_to_other_users_is_refused[by_mode-78]",
        (TOKENS, "seen.st_mode & 0o077", "seen.st_mode & 0o007"),
    ),
    bug(
        "acquire reads its ttl as milliseconds",
        f"{TEST}its_time_is_what_was_asked_for_and_it_ends_then",
        (TAKE, "(client._ctx.store, options.ttl)", "(client._ctx.store, options.ttl / 1000)"),
        commands=True,
    ),
    bug(
        "acquire requests the whole ttl before its token is written",
        f"{TEST}a_hold_is_asked_for_with_a_short_ttl_until_its_token_is_out",
        (TAKE, "options, min(ttl, UNTOLD_S))", "options, ttl)"),
        commands=True,
    ),
    bug(
        "a lock whose token could not be written stays held",
        f"{TEST}a_token_that_cannot_be_written_is_no_hold[/dev/full]",
        (TAKE, "            run_sync(across.release(ctx, passed))\n", "            pass\n"),
        commands=True,
    ),
    bug(
        "a hold that a command has adopted is shown as not renewed",
        f"{TEST}ls_show_doctor_and_break_report_a_detached_hold_without_renewal",
        ("holdfast.core.adopt", "spec=claim.spec._replace(owner=ctx.owner)", "spec=claim.spec"),
    ),
    bug(
        "a hold that a program has detached is shown as renewed",
        f"{TEST}ls_show_doctor_and_break_report_a_detached_hold_without_renewal",
        ("holdfast.core.across", "_replace(owner=marked(owner))", "_replace(owner=owner)"),
        commands=True,
    ),
    bug(
        "a released hold is reported as expired",
        f"{TEST}a_hold_lasts_from_one_command_to_another",
        ("holdfast.core.across", "left.least, True, spec.ttl)", "left.least, False, spec.ttl)"),
        commands=True,
    ),
    bug(
        "check accepts any token with the fence of the holder",
        "tests/cli/test_across_token.py::test_check_names_the_adopter_and_reports_the_release",
        (
            "holdfast.core.across",
            "    left = await renew(ctx, passed, length,",
            "    left = length if seen else await renew(ctx, passed, length,",
        ),
    ),
    bug(
        "one of several holds keeps the short ttl of its request",
        f"{SEVERAL}all_names_are_acquired_checked_renewed_and_released",
        (
            TAKE,
            "        for passed in detached:\n            ending.look()",
            "        for passed in detached[:-1] or detached:\n            ending.look()",
        ),
    ),
    bug(
        "one of several holds stays held when the tokens can't be written",
        f"{SEVERAL}tokens_that_cannot_be_written_are_no_holds",
        (
            TAKE,
            "    for passed in detached:\n        try",
            "    for passed in detached[:-1] or detached:\n        try",
        ),
        commands=True,
    ),
    bug(
        "one of several holds is not released",
        f"{SEVERAL}all_names_are_acquired_checked_renewed_and_released",
        (
            HELD,
            "        for one in passed:  #",
            "        for one in passed[: 2 if options.command == 'release' else None]:  #",
        ),
    ),
    bug(
        "a lost hold hides the others",
        f"{SEVERAL}a_lost_hold_hides_none_of_the_others[web-renew]",
        (
            HELD,
            "                    say(str(over))\n",
            "                    say(str(over))\n                break\n",
        ),
    ),
    bug(
        "a lost hold is forgotten when the next one is still held",
        f"{SEVERAL}a_lost_hold_hides_none_of_the_others[web-check]",
        (
            HELD,
            "                said.append(act(client, options, one))\n",
            "                said.append(act(client, options, one))\n                lost = 0\n",
        ),
    ),
    bug(
        "only the first of several holds is renewed if stdout is full",
        f"{SEVERAL}all_names_are_renewed_when_the_output_cannot_be_written",
        (HELD, "said.append(act(client", "print(end='', flush=True, *act(client"),
        commands=True,
    ),
    bug(
        "a signal while the tokens are written leaves the names held",
        f"{ENDED}the_exit_status_is_true_after_a_signal_at_any_point[holdfast.core.across:detach]",
        (TAKE, "    ending.note()\n", ""),
    ),
    bug(
        "a signal after the last grant ends acquire with the signal's status",
        f"{ENDED}the_exit_status_is_true_after_a_signal_at_any_point"
        "[holdfast.sync.client:Client.__exit__]",
        (
            ENDING,
            "        finally:\n            self._noting = True\n",
            "        finally:\n            pass\n",
        ),
    ),
    bug(
        "a second signal ends acquire with a traceback",
        f"{ENDED}a_signal_behind_the_end_stops_nothing",
        (TAKE, "        ending.note()  #", "        pass  #"),
    ),
    bug(
        "a second signal stops the release",
        f"{ENDED}a_second_signal_does_not_stop_the_release[INT]",
        (ENDING, " ended = Ended()\n", " ended, self._noting = Ended(), False\n"),
    ),
    bug(
        "a token that is given twice is released twice",
        f"{SEVERAL}the_tokens_go_by_stdout_to_the_environment_or_stdin",
        (TOKENS, "            found[word] =", "            found[str(number)] ="),
    ),
    bug(
        "redis: a token restores a hold that the server has lost",
        "tests/stores/redis/test_guarded.py"
        "::test_no_token_brings_back_a_hold_that_a_restart_has_lost",
        ("holdfast.stores.redis.store", "        if keep.detach:  #", "        if False:  #"),
    ),
]
