"""A ``with`` over a hold that has ended: its body never runs, and nothing stays held."""

from __future__ import annotations

import pytest

from holdfast import LockLost, NotHeld
from holdfast.testing.faces import FACES


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("ends", ["released", "lost"])
def test_the_body_of_a_hold_that_has_ended_does_not_run(ends: str, face: str, space: str) -> None:
    error = NotHeld if ends == "released" else LockLost

    async def main() -> None:
        async with FACES[face].client(space) as client, FACES[face].client(space) as other:
            hold, holds = await client.lock("a").acquire(), await client.all("b", "c").acquire()
            for one in (hold, holds.holds[0]):
                if ends == "released":
                    await one.release()
                else:
                    assert await other.break_(one.name, one.fence)
                    with pytest.raises(LockLost):
                        await one.extend()
            # When they are entered while another client holds the names
            async with other.all("a", "b", timeout=5):
                for ended in (hold, holds):
                    with pytest.raises(error):
                        async with ended:
                            pytest.fail("a body runs without its lock")
            # Then of several names the others are released
            assert await other.inspect() == []

    FACES[face].run(main, 60)
