"""Stores with one fault each, based on the memory store; the kit must find each fault."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from typing import Any

from holdfast.core.model import (
    Capabilities,
    Change,
    Claim,
    Gone,
    Held,
    Joined,
    Leave,
    LineRecord,
    Loss,
    Mismatch,
    Refused,
    Renewal,
    Standing,
)
from holdfast.core.ports import Store
from holdfast.stores.memory import CAPABILITIES
from holdfast.stores.memory.aio import AioPort
from holdfast.stores.memory.blocking import BlockingPort, space
from holdfast.stores.memory.line import Line, Lines, Poke
from holdfast.stores.memory.store import MemoryStore
from holdfast.url import StoreURL

Answers = tuple[Any, list[Poke]]


class AtARefusal(Lines):
    """Does something wrong when a join is refused."""

    def join(self, claim: Claim, wait: bool, now: float, address: Any = None) -> Answers:
        answer, pokes = super().join(claim, wait, now, address)
        if isinstance(answer, Refused):
            answer = self.refused(claim, now) or answer
        return answer, pokes

    def refused(self, claim: Claim, now: float) -> Held | None:
        raise NotImplementedError


class GrantsEverybody(AtARefusal):
    def refused(self, claim: Claim, now: float) -> Held | None:
        return Held(self.next_ticket, claim.spec.ttl)


class RepeatsFences(Lines):
    def join(self, claim: Claim, wait: bool, now: float, address: Any = None) -> Answers:
        if claim.spec.name not in self.lines:
            self.next_ticket = 7
        return super().join(claim, wait, now, address)


class ServesTheLastFirst(Lines):
    def _grant(self, line: Line, now: float) -> list[Poke]:
        if line.used == 0 and len(line.waiting) > 1:
            line.waiting.move_to_end(next(reversed(line.waiting)), last=False)
        return super()._grant(line, now)


class LetsTriesOvertake(Lines):
    def leave(self, leave: Leave, now: float) -> Answers:
        line = self.lines.get(leave.name)
        there, pokes = super().leave(leave, now)
        if line is not None and pokes:  # the grant is revoked until the waiter asks
            for _, cid, _ in pokes:
                row = line.held.pop(cid)
                line.used -= row.weight
                row.held = False
                line.waiting[cid] = row
        return there, []

    def join(self, claim: Claim, wait: bool, now: float, address: Any = None) -> Answers:
        line = self.lines.get(claim.spec.name)
        if line is not None and not wait and not line.held:
            return Held(self.next_ticket, claim.spec.ttl), []
        return super().join(claim, wait, now, address)


class LetsSomeIn(Lines):
    def join_free(self, claims: Sequence[Claim], now: float) -> Answers:
        free = [one for one in claims if one.spec.name not in self.lines]
        held, pokes = super().join_free(free, now)
        return held if len(free) == len(claims) else None, pokes


class OvertakesForSeveral(Lines):
    def join_free(self, claims: Sequence[Claim], now: float) -> Answers:
        for one in claims:
            line = self.lines.get(one.spec.name)
            if line is not None and line.waiting:
                line.waiting.clear()
        return super().join_free(claims, now)


class LeavesTheFirstOnly(MemoryStore):
    async def leave_all(self, leaves: Sequence[Leave], within: float) -> list[bool | Exception]:
        return [*await super().leave_all(leaves[:1], within), *[True] * (len(leaves) - 1)]


class QueuesTries(AtARefusal):
    def refused(self, claim: Claim, now: float) -> Held | None:
        Lines.join(self, claim, True, now, None)
        return None


class FreesWhoeverHolds(Lines):
    def leave(self, leave: Leave, now: float) -> Answers:
        line = self.lines.get(leave.name)
        if line is not None and leave.id not in (*line.held, *line.waiting):
            leave = leave._replace(id=next(iter(line.held), leave.id))
        return super().leave(leave, now)


class Resurrects(Lines):
    def renew(self, renewal: Renewal, now: float) -> Answers:
        answer, pokes = super().renew(renewal, now)
        if isinstance(answer, Gone) and answer.reason is Loss.EXPIRED:
            return Held(renewal.ticket, renewal.ttl), pokes
        return answer, pokes

    def change(self, change: Change, now: float) -> Answers:
        answer, pokes = super().change(change, now)
        if isinstance(answer, Gone) and answer.reason is Loss.EXPIRED:
            return Held(change.ticket, change.ttl), pokes
        return answer, pokes


class NeverExpires(Lines):
    def _enter(self, line: Line, claim: Claim, now: float, held: bool, address: Any) -> Joined:
        answer = super()._enter(line, claim, now, held, address)
        for row in line.rows():
            row.expires = now + 1000.0
        return answer


class BreaksWithoutLooking(Lines):
    def break_(self, name: str, ticket: int, now: float) -> Answers:
        row = next(self.lines[name].rows(), None) if name in self.lines else None
        return super().break_(name, row.ticket if row else ticket, now)


class BreaksWithoutAnId(Lines):
    def leave(self, leave: Leave, now: float) -> Answers:
        if not leave.id:
            return self.break_(leave.name, leave.ticket, now)
        return super().leave(leave, now)


class BreaksTheNextOneToo(Lines):
    """A ticket that is no longer in the line breaks the next holder."""

    def break_(self, name: str, ticket: int, now: float) -> Answers:
        later = [r.ticket for r in self.lines[name].rows()] if name in self.lines else []
        return super().break_(name, min([t for t in later if t >= ticket], default=ticket), now)


class AdoptsTwice(Lines):
    def change(self, change: Change, now: float) -> Answers:
        claim = change.claim
        line, row = self._row(claim.spec.name, claim.id)
        answer = super().change(change, now)
        if line is not None and row is not None and row.held:
            line.held[claim.id] = row
        return answer


class KeepsTheWeight(Lines):
    def renew(self, renewal: Renewal, now: float) -> Answers:
        return super().renew(renewal._replace(weight=0), now)


class ForgetsTheFormerCapacity(Lines):
    def resize(self, name: str, capacity: int, now: float) -> Any:
        answer = super().resize(name, capacity, now)
        if name in self.lines:
            self.lines[name].former = 0
        return answer


class TakesAnyCapacity(Lines):
    def join(self, claim: Claim, wait: bool, now: float, address: Any = None) -> Answers:
        line = self.lines.get(claim.spec.name)
        if line is not None and claim.spec.kind == line.kind:
            line.capacity = claim.spec.capacity
        return super().join(claim, wait, now, address)


class MixesKinds(Lines):
    def join(self, claim: Claim, wait: bool, now: float, address: Any = None) -> Answers:
        answer, pokes = super().join(claim, wait, now, address)
        if isinstance(answer, Mismatch) and answer.kind != claim.spec.kind:
            return Held(self.next_ticket, claim.spec.ttl), pokes
        return answer, pokes


class WakesNobody(Lines):
    #: Seconds until a waiter polls: longer than a busy machine may delay a wake-up.
    asks_again_s = 4.0

    def leave(self, leave: Leave, now: float) -> Answers:
        return super().leave(leave, now)[0], []

    def _retry_in(self, line: Line, now: float) -> float:
        return self.asks_again_s


class LooksByPattern(Lines):
    def inspect(self, prefix: str, now: float, exact: bool = False) -> list[LineRecord]:
        return super().inspect(prefix.rstrip("%_*"), now, exact)


class FoldsNames(Lines):
    def join(self, claim: Claim, wait: bool, now: float, address: Any = None) -> Answers:
        spec = claim.spec._replace(name=claim.spec.name.casefold().strip())
        return super().join(claim._replace(spec=spec), wait, now, address)


class IgnoresMinHold(Lines):
    def leave(self, leave: Leave, now: float) -> Answers:
        return super().leave(leave._replace(after=0.0), now)


class SaysThatItWasThere(Lines):
    def break_(self, name: str, ticket: int, now: float) -> Answers:
        return True, super().break_(name, ticket, now)[1]


class ForgetsWaiters(Lines):
    def turn(self, claim: Claim, now: float, address: Any = None) -> Answers:
        line = self.lines.get(claim.spec.name)
        if line is not None:
            line.waiting.pop(claim.id, None)
        return super().turn(claim, now, address)


class GrantsByRenewal(Lines):
    """The renewal of a claim that waits keeps its place, and grants it if it is next."""

    def renew(self, renewal: Renewal, now: float) -> Answers:
        _, row = self._row(renewal.claim.spec.name, renewal.claim.id)
        if row is not None and not row.held:
            return self.turn(renewal.claim, now)
        return super().renew(renewal, now)


class LosesTheMeta(Lines):
    def inspect(self, prefix: str, now: float, exact: bool = False) -> list[LineRecord]:
        lines = super().inspect(prefix, now, exact)
        return [
            line._replace(claims=tuple(one._replace(meta="") for one in line.claims))
            for line in lines
        ]


class FailsABatchTogether(MemoryStore):
    async def renew(self, renewals: Sequence[Renewal], within: float) -> list[Standing | Exception]:
        answers = await super().renew(renewals, within)
        gone = next((one for one in answers if isinstance(one, Gone)), None)
        return [gone] * len(answers) if gone is not None else answers


class UndoesWhateverLooksAlike(Lines):
    """A cancelled attempt ends a holder whose lease has about the same length."""

    def leave(self, leave: Leave, now: float) -> Answers:
        line = self.lines.get(leave.name)
        if line is not None and leave.id not in line.held:
            for row in list(line.held.values()):
                if abs(row.ttl - leave.ttl) < 10:
                    self._drop(line, row)
        return super().leave(leave, now)


class RefusesAndShortens(AtARefusal):
    def refused(self, claim: Claim, now: float) -> Held | None:
        for row in self.lines[claim.spec.name].held.values():
            row.expires -= 0.5 * row.ttl
        return None


class LengthensWhoIsAsked(AtARefusal):
    def refused(self, claim: Claim, now: float) -> Held | None:
        for row in self.lines[claim.spec.name].held.values():
            row.expires += 10.0
        return None


class TurnsWhereItJoined(MemoryStore):
    """A waiter is known only to the client that joined it."""

    async def turn(self, claim: Claim, ticket: int, within: float) -> Standing:
        if claim.id not in self._boxes:
            return Gone(Loss.EXPIRED)
        return await super().turn(claim, ticket, within)


#: A store with a fault -> the primitive and the case with which the kit must find the fault.
FAULTS: dict[type[Any], str] = {
    GrantsEverybody: "lock-a_try_on_a_busy_name_answers_none_at_once",
    RepeatsFences: "semaphore-every_grant_has_a_greater_fence_than_all_before",
    ServesTheLastFirst: "lock-waiters_are_served_in_order_of_arrival",
    LetsTriesOvertake: "write-a_try_does_not_overtake_the_waiters",
    LetsSomeIn: "all-none_is_kept_if_one_is_busy",
    OvertakesForSeveral: "all-a_waiter_is_not_overtaken_by_a_claim_for_several_names",
    LeavesTheFirstOnly: "all-all_are_held_and_all_are_released",
    QueuesTries: "election-a_try_on_a_busy_name_answers_none_at_once",
    FreesWhoeverHolds: "lock-the_next_one_gets_what_was_broken_and_keeps_it",
    Resurrects: "lock-detached_and_left_alone_it_lives_by_its_ttl",
    NeverExpires: "lock-what_has_expired_never_comes_back",
    BreaksWithoutLooking: "read-breaking_needs_the_fence_of_the_claim",
    BreaksWithoutAnId: "lock-a_leave_without_an_id_ends_no_claim",
    BreaksTheNextOneToo: "write-a_ticket_is_broken_once_and_no_later_grant_with_it",
    AdoptsTwice: "lock-a_token_works_once",
    KeepsTheWeight: "write-a_downgrade_lets_readers_in_and_no_writer_between",
    ForgetsTheFormerCapacity: "semaphore-a_roll_out_from_4_to_8_passes_through_while_both_run",
    TakesAnyCapacity: "semaphore-another_number_of_permits_is_refused_and_both_are_named",
    MixesKinds: "lock-a_name_is_one_kind_at_a_time",
    WakesNobody: "lock-an_unbounded_wait_is_served_when_the_name_is_free",
    LooksByPattern: "lock-inspect_goes_by_prefix_or_exactly_and_is_sorted",
    FoldsNames: "lock-names_that_differ_at_all_are_different_names",
    IgnoresMinHold: "lock-min_hold_keeps_a_released_name_occupied",
    SaysThatItWasThere: "write-breaking_needs_the_fence_of_the_claim",
    ForgetsWaiters: "lock-waiters_that_wait_long_keep_their_places",
    LosesTheMeta: "lock-inspect_lists_holders_and_waiters",
    UndoesWhateverLooksAlike: "lock-a_try_on_a_busy_name_changes_nothing_for_the_holder",
    RefusesAndShortens: "lock-a_try_on_a_busy_name_changes_nothing_for_the_holder",
    LengthensWhoIsAsked: "lock-a_try_on_a_busy_name_changes_nothing_for_the_holder",
    GrantsByRenewal: "lock-a_renewal_grants_nothing_to_a_claim_that_waits",
    TurnsWhereItJoined: "lock-one_claim_is_answered_by_its_line_whichever_client_asks",
    FailsABatchTogether: "lock-a_callback_that_raises_does_no_harm",
}


def module(fault: type[Any], can: Capabilities = CAPABILITIES) -> str:
    """Register a module for a store with this fault and these capabilities; return its name."""
    scheme = f"planted-{fault.__name__.lower()}"
    lines = fault if issubclass(fault, Lines) else Lines
    base = fault if issubclass(fault, MemoryStore) else MemoryStore
    made = types.ModuleType(f"tests.conformance.{scheme}")

    def store(port: Any) -> Store:
        made_of: Any = space(scheme)
        if type(made_of.lines) is not lines:
            made_of.lines = lines()
        one: MemoryStore = base(port)
        one.capabilities = can
        return one

    def open_blocking(url: StoreURL) -> Store:
        return store(BlockingPort(scheme))

    def open_aio(url: StoreURL) -> Store:
        return store(AioPort(scheme))

    vars(made).update(CAPABILITIES=can, OPTIONS={}, open_blocking=open_blocking, open_aio=open_aio)
    sys.modules[made.__name__] = made
    return made.__name__
