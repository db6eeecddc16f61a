"""Bugs made by rule: the rules, and a sample of bugs of which few go unnoticed."""

from __future__ import annotations

import math
import random

import pytest

from tests.torture.scale import FULL, seed_of

from . import statements
from .drawn import everything, judged_all
from .operators import mutations

DRAWN = 200
#: Least part of all bugs that must be noticed: the part that the tests have reached. It only rises,
#: to 0.9. Some bugs have no visible effect: an order, or a length that is only a hint.
NOTICED = 0.75
#: Maximum part of all samples that may be red although this part of all bugs is noticed.
WRONG = 0.001


def least(drawn: int) -> int:
    """Return how many of the drawn bugs must be noticed."""
    chance = 0.0
    for noticed in range(drawn + 1):
        left = drawn - noticed
        chance += math.comb(drawn, noticed) * NOTICED**noticed * (1 - NOTICED) ** left
        if chance >= WRONG:
            return noticed
    return drawn


SOURCE = b'''
def one(self, left, right):
    """A text: left < right."""
    self.x = 0
    if left < right and not self.done:
        log.info("left < right")
        await self.tell(min(left, 3))
    raise ValueError(left < right)
'''
QUIET = b"""
def one(self, left, right):
    begun = self.now()
    until = begun + 3
    while (now := self.now()) > until:
        left = left <= 0
    if left < right:
        log.info("left < right")
    elif self.told:
        complain(left)
    return zip(left, right - (2 + now), strict=True)

def complain(what):
    log.warning("left < right: %s", not what)
"""


def test_each_rule_changes_what_runs_and_no_text() -> None:
    assert [one.what for one in mutations(SOURCE)] == [
        "'self.x = 0' becomes 'pass'",
        "'left < right and not self.done' becomes '((left < right))'",
        "'left < right and not self.done' becomes '((not self.done))'",
        "'left < right' becomes 'left <= right'",
        "'not self.done' becomes 'bool(self.done)'",
        "'await self.tell(min(left, 3))' becomes 'pass'",
        "'min' becomes 'max'",
    ]


def test_a_clock_is_compared_the_other_way_and_no_rule_changes_what_only_logs() -> None:
    assert [one.what for one in mutations(QUIET)] == [
        "'begun + 3' becomes 'begun - 3'",
        "'(now := self.now()) > until' becomes '(now := self.now()) <= until'",
        "'left <= 0' becomes 'left < 0'",
        "'right - (2 + now)' becomes 'right + (2 + now)'",
    ]


LUA = b"""
-- if a < b then
if a < b and not c then
  redis.call('SET', k, v)
  call('x < y')
  n = math.min(n, 2)
  local m = n + 1
end
"""
SQL = b"""
-- AND a = 1
UPDATE t SET a = b WHERE name = p_name AND id = 'AND';
IF NOT FOUND THEN
    PERFORM save(l);
    l.used := l.used - 1;
    SET v_a = LEAST(v_b, 1);
END IF;
"""


@pytest.mark.parametrize(
    "source, suffix, made",
    [
        (
            LUA,
            ".lua",
            [
                "'if a < b and not c then' becomes 'if not (a < b and not c) then'",
                "'<' becomes '<='",
                "'and' becomes 'or'",
                "'not' becomes ''",
                "\"redis.call('SET', k, v)\" becomes ''",
                "\"call('x < y')\" becomes ''",
                "'n = math.min(n, 2)' becomes ''",
                "'math.min' becomes 'math.max'",
                "'+' becomes '-'",
            ],
        ),
        (
            SQL,
            ".sql",
            [
                "'name =' becomes 'name <>'",
                "'AND' becomes 'OR'",
                "'id =' becomes 'id <>'",
                "'IF NOT FOUND THEN' becomes 'IF NOT (NOT FOUND) THEN'",
                "'PERFORM save(l);' becomes ''",
                "'l.used := l.used - 1;' becomes 'NULL;'",
                "'-' becomes '+'",
                "'SET v_a = LEAST(v_b, 1);' becomes 'DO 0;'",
                "'LEAST' becomes 'GREATEST'",
            ],
        ),
    ],
)
def test_each_rule_changes_statements_and_no_comment(
    source: bytes, suffix: str, made: list[str]
) -> None:
    assert sorted(one.what for one in statements.mutations(source, suffix)) == sorted(made)


def test_there_are_thousands_and_each_can_be_compiled() -> None:
    assert len(everything("/lua/")) > 2000
    assert len(everything("/schema/")) > 4000
    bugs = everything()
    assert len(bugs) > 3000
    for bug in random.Random(seed_of("bugs made by rule")).sample(bugs, 200):
        compile(bug.mutation.of(bug.source()), str(bug), "exec")


def test_a_sample_is_red_at_less_than_the_expected_number_of_noticed_bugs() -> None:
    # None of six bugs in 0.02 % of the samples; 3.2 standard deviations are 20 bugs of 200.
    assert (least(4), least(6), least(200)) == (0, 1, 130)


@pytest.mark.skipif(not FULL, reason="a quarter of an hour for 200 bugs: HOLDFAST_TORTURE=full")
def test_few_of_the_bugs_that_are_drawn_go_unnoticed(capsys: pytest.CaptureFixture[str]) -> None:
    bugs = random.Random(seed_of("bugs made by rule")).sample(everything(), DRAWN)
    with capsys.disabled():
        said = judged_all(bugs)
    ran = [how for how in said.values() if not how.startswith("?")]
    assert sum(map(bool, ran)) >= least(len(ran))
