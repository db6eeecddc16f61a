"""A server that refuses subscriptions: waiters poll, and subscribe once they have the right."""

from __future__ import annotations

import pytest

from holdfast.testing.faces import FACES
from tests.servers.fixtures import NewRedis

from .conftest import Scene
from .test_never import CHANNEL

LIMIT_S = 60.0


@pytest.mark.parametrize("face", FACES)
def test_a_client_without_the_right_to_subscribe_polls_and_warns(
    face: str,
    new_redis: NewRedis,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A right that is granted later reaches waiters that wait already."""
    for room in ("blocking", "aio"):
        monkeypatch.setattr(f"holdfast.stores.redis.{room}.port.DEAF_S", 0.5)
    server = new_redis(users=("user app on >secret ~* resetchannels +@all",))
    at = Scene(FACES[face], server, "current", "lock", None)  # type: ignore[arg-type]

    async def main() -> None:
        at.peer.lock(at.name)
        url = server.url_for("app", "secret").replace("redis://", "redis+redisson://")
        client = at.face.client(f"{url}?client=current")
        waiter = at.face.start(lambda: client.lock(at.name).acquire(timeout=30))
        await at.until(lambda: "refused the subscription" in caplog.text)
        # When the right is granted
        at.redis.acl_setuser("app", channels=["redisson*"])
        # Then the waiter subscribes
        await at.listening(CHANNEL.format(at.name))
        at.peer.unlock(at.name)
        hold = await waiter.result()
        assert await hold.release()
        await client.close()

    try:
        at.face.run(main, LIMIT_S)
    finally:
        at.ends.close()
