"""Bugs planted into the refresh guard, and the test that must catch each."""

from __future__ import annotations

from .bugs import bug

VALUES = "holdfast.stores.memory.values"
FLIGHT = "holdfast.core.guard.flight"
GUARD = "holdfast.core.guard.guard"
REFRESH = "holdfast.core.guard.refresh"
COMPUTING = "holdfast.core.guard.computing"
NEAR = "holdfast.core.guard.near"
MERGING = "tests/guard/test_merging.py::test_"
REFRESHING = "tests/guard/test_refreshing.py::test_"
KIT = "tests/conformance/test_conformance.py::test_conforms[memory-aio-guard-"
COMMONS = "holdfast.core.guard.commons"
OPTIONS = "tests/guard/test_options.py::test_"
SIMULATED = "tests/guard/test_simulated.py::test_histories_in_a_row_violate_nothing"

METHODS = "tests/guard/test_methods.py::test_"

GUARDS = [
    bug(
        "an address in memory becomes a name",
        "tests/core/test_template.py::test_an_address_in_memory_is_no_name[{user_id}]",
        ("holdfast.core.template", 'if _ADDRESS in text or "!" in part:', "if False:"),
    ),
    bug(
        "a bound cached method invalidates without its object",
        f"{METHODS}an_object_invalidates_what_it_was_asked_for_and_nothing_else",
        (
            "holdfast.sync.guard",
            "self.__func__.invalidate(self.__self__, *args, **kwargs)",
            "self.guard.invalidate(self.__func__._fill(*args, **kwargs))",
        ),
    ),
    bug(
        "an argument in place of the object makes the key of another value",
        f"{METHODS}without_its_object_nothing_is_invalidated",
        ("holdfast.core.guard.function", "if name and not known:", "if False:"),
    ),
    bug(
        "all callers that come during a read send separate reads",
        f"{MERGING}few_callers_read_at_the_same_time_as_the_leader",
        (GUARD, "found.beside < BESIDE_MAX", "True"),
    ),
    bug(
        "a known stale value is served though no caller computes the next one",
        f"{MERGING}an_old_value_that_is_known_is_served_while_it_may_be_and_another_computes",
        (GUARD, "value.stale_in > 0 and sent < self._shared.busy.get(key, 0.0)", "True"),
    ),
    bug(
        "a separate read returns an expired value",
        f"{MERGING}a_separate_read_returns_no_expired_value",
        (
            REFRESH,
            "if value is None or value.fresh_in <= 0:\n        return None",
            "if not value:\n        return None",
        ),
    ),
    bug(
        "each caller that waited for one value sends the counts",
        f"{MERGING}callers_that_waited_for_one_value_send_few_counts",
        (COMMONS, "untold, ctx.told = ctx.untold, ctx.now()", "untold = ctx.untold"),
    ),
    bug(
        "a caller without the refresh lease can store its value",
        SIMULATED,
        (
            VALUES,
            "if at.id != finish.id or at.fence != finish.fence:\n            return at.value",
            "if False:\n            return at.value",
        ),
    ),
    bug(
        "a late copy of a request restores the refresh lease of an old computation",
        f"{KIT}a_late_copy_of_a_request_brings_no_duty_back]",
        (VALUES, "at.id != finish.id or at.fence != finish.fence", "at.id != finish.id"),
    ),
    bug(
        "a forked child stores the value that its parent computes",
        f"{REFRESHING}the_child_of_a_fork_stores_nothing_for_its_parent",
        (COMPUTING, "if self._epoch != ctx.epoch:", "if False:"),
    ),
    bug(
        "a failed computation keeps the refresh lease",
        f"{KIT}when_one_fails_exactly_one_successor_computes_at_once]",
        (
            COMPUTING,
            "            await self._guard._guards().abandon(abandon, UNDO_S * 10)",
            "            pass",
        ),
    ),
    bug(
        "an invalidation leaves the refresh lease",
        SIMULATED,
        (
            VALUES,
            'at.value, at.id, at.failures, at.failed_until = None, "", 0, 0.0',
            "at.value, at.failures, at.failed_until = None, 0, 0.0",
        ),
    ),
    bug(
        "a reply is shared with callers that came after the request",
        f"{MERGING}a_caller_that_comes_after_a_read_was_sent_does_not_share_it",
        (
            FLIGHT,
            "        served = self._seats[: self._counts]\n        del self._seats[: self._counts]",
            "        served = list(self._seats)\n        del self._seats[:]",
        ),
    ),
    bug(
        "a stale value is shared with callers that came after the read",
        f"{MERGING}a_caller_that_comes_after_a_read_was_sent_does_not_share_it",
        (REFRESH, "(self._asked if wish.wait else self._sends)()", "self._asked()"),
    ),
    bug(
        "a refused value is shared with the waiters",
        f"{KIT}what_was_computed_from_before_an_invalidation_is_not_stored]",
        (
            REFRESH,
            "        if stored:\n            self._guard._keep_near",
            "        if True:\n            self._guard._keep_near",
        ),
    ),
    bug(
        "an invalidation doesn't clear the local cache of its process",
        SIMULATED,
        (
            NEAR,
            "        for key in keys:\n            self._held.pop(key, None)",
            "        for key in ():\n            self._held.pop(key, None)",
        ),
    ),
    bug(
        "the reply to a request from before an invalidation enters the local cache",
        f"{OPTIONS}what_was_asked_for_before_an_invalidation_stays_out_of_the_layer",
        (NEAR, "if value.fresh_in <= 0 or era != self.era:", "if value.fresh_in <= 0:"),
    ),
    bug(
        "the local cache serves a value for too long",
        f"{OPTIONS}the_layer_in_the_process_counts_from_the_sending",
        (
            NEAR,
            "now >= found[1] + span",
            "now >= found[1] + span * 1.5",
        ),
    ),
    bug(
        "a leader that leaves without a result notifies no caller",
        SIMULATED,
        (
            REFRESH,
            "            self._guard._shared.over(self._key, flight, flight.hand_over())",
            "            self._guard._shared.over(self._key, flight, True)",
        ),
    ),
    bug(
        "a caller that leaves when it becomes the leader doesn't hand over",
        f"{MERGING}a_caller_cancelled_when_it_becomes_the_leader_hands_over",
        (
            GUARD,
            "                self._shared.over(key, flight, flight.hand_over())\n            raise",
            "                pass\n            raise",
        ),
    ),
    bug(
        "a fresh value is shared with callers that came after the request",
        f"{MERGING}a_caller_that_comes_after_a_read_was_sent_does_not_share_it",
        (
            REFRESH,
            """                leads = False
                guard._shared.over(key, flight, flight.land(value))""",
            """                leads = flight.mark()
                guard._shared.over(key, flight, flight.land(value))""",
        ),
    ),
    bug(
        "a fresh value enters the local cache with the time of its arrival",
        f"{OPTIONS}the_layer_in_the_process_counts_from_the_sending",
        (
            REFRESH,
            "near.put(key, value, sent, era, ",
            "near.put(key, value, ctx.now(), era, ",
        ),
    ),
]
