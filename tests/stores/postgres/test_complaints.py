"""What the server says when it refuses becomes an error that says what to do."""

from __future__ import annotations

from holdfast import StoreUnavailable
from holdfast.stores.postgres.complaints import ServerSaid, complaint


def test_a_full_queue_of_messages_is_told_with_its_remedy() -> None:
    # Given what a server says that can't commit a NOTIFY any more
    said = ServerSaid("54000", "too many notifications in the NOTIFY queue")
    # Then it is an outage, and the error says who keeps the queue full
    wrong = complaint(said, "postgresql://db/app")
    assert type(wrong) is StoreUnavailable
    assert "queue of NOTIFY is full" in str(wrong)
    assert "pg_stat_activity" in str(wrong)
    assert "too many notifications" in str(wrong)
