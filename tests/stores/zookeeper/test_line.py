"""The line that a client derives from node names, compared with the model; the nodes to watch."""

from __future__ import annotations

import random

import pytest

from holdfast.core.model import Claim, Kind, Leave, Spec
from holdfast.stores.memory.line import Lines
from holdfast.stores.zookeeper import line as lines
from holdfast.stores.zookeeper.names import CURATOR, KAZOO, beginning, digest, entries, later

NUMBERS = [0, 17, 2**31 - 3]


def spec_of(kind: Kind, capacity: int, weight: int) -> Spec:
    return Spec("x", kind, capacity, weight, 30.0, "somebody")


@pytest.mark.parametrize("first", NUMBERS)
@pytest.mark.parametrize(
    "kind, capacity", [(Kind.LOCK, 1), (Kind.SEMAPHORE, 3), (Kind.RWLOCK, 1 << 20)]
)
def test_the_holders_by_node_names_are_the_holders_of_the_model(
    kind: Kind, capacity: int, first: int
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    weights = {Kind.LOCK: [1], Kind.SEMAPHORE: [1, 2, 3], Kind.RWLOCK: [1, 1, capacity]}[kind]
    model, nodes, specs = Lines(), {}, {}
    number = first
    for step in range(600):
        if dice.random() < 0.5 or not nodes:
            # Given a claim that enters with the next number; the server's numbers wrap
            cid = f"{step:032x}"
            spec = specs[cid] = spec_of(kind, capacity, dice.choice(weights))
            model.join(Claim(cid, spec), True, 0.0)
            nodes[cid] = f"{beginning(Claim(cid, spec), False, KAZOO)}{number:010d}"
            number = number + 1 if number < 2**31 - 1 else -(2**31)
        else:
            cid = dice.choice(sorted(nodes))
            model.leave(Leave("x", cid, 0), 0.0)
            del nodes[cid]
        # Then the holders are the same for any order of the server's list
        listed = list(nodes.values())
        dice.shuffle(listed)
        line = entries(listed, KAZOO, "x")
        held = set(model.lines["x"].held) if nodes else set()
        for cid, node in nodes.items():
            own = next(one for one in line if one.node == node)
            seen = lines.view(own, line, specs[cid], {})
            block = lines.block(seen, specs[cid], specs[cid].weight)
            assert (block is None) == (cid in held), (seed, step)
            if block is not None:
                _blocks(block, seen, capacity, specs[cid].weight)


def _blocks(block: lines.Block, seen: lines.View, capacity: int, weight: int) -> None:
    """Check that the watched nodes block the claim while all exist, and that each is needed."""
    weighs = dict(zip([one.node for one in seen.ahead], seen.weights, strict=True))
    used = [weighs[one.node] for one in block.nodes]
    assert sum(used) + weight > capacity
    assert sum(used) - min(used) + weight <= capacity
    assert block.alone == (len(seen.ahead) == 1)


def test_a_lock_watches_its_predecessor_and_a_reader_the_last_writer() -> None:
    def node(cid: str, weight: int, number: int) -> str:
        claim = Claim(cid, spec_of(Kind.RWLOCK, 1 << 20, weight))
        return f"{beginning(claim, False, KAZOO)}{number:010d}"

    writer, reader = 1 << 20, 1
    nodes = [
        node(str(at), weight, at)
        for at, weight in enumerate([writer, reader, writer, reader, reader])
    ]
    line = entries(nodes, KAZOO, "x")
    watched = []
    for own in line[1:]:
        spec = spec_of(Kind.RWLOCK, 1 << 20, own.weight)
        block = lines.block(lines.view(own, line, spec, {}), spec, own.weight)
        assert block is not None
        watched.append([one.number for one in block.nodes])
    # Readers don't wait for readers; the writer watches the claim that is held longest
    assert watched == [[0], [0], [2], [2]]


def test_a_claims_id_can_not_be_read_off_its_node() -> None:
    claim = Claim("0123456789abcdef0123456789abcdef", spec_of(Kind.LOCK, 1, 1))
    for recipe in (KAZOO, CURATOR):
        start = beginning(claim, False, recipe)
        assert claim.id not in start.replace("-", "")
        assert digest(claim.id) in start.replace("-", "")


def test_numbers_are_compared_across_their_wrap() -> None:
    least, most = -(2**31), 2**31 - 1
    assert later(least, most)
    assert not later(most, least)
    assert later(least + 5, most - 5)
    assert not later(7, 7)
    # And the server writes a negative number with a sign and ten digits
    (entry,) = entries([f"{'0' * 32}-l-1-1-w__lock__{least:010d}"], KAZOO, "x")
    assert entry.number == least
