"""A refusal of the server becomes an error that names the remedy."""

from __future__ import annotations

import pytest

from holdfast import StoreUnavailable
from holdfast.stores.postgres.complaints import ServerSaid, complaint
from holdfast.stores.postgres.config import Settings, settings
from holdfast.url import find


def test_a_full_notify_queue_is_an_error_with_its_remedy() -> None:
    # Given the error of a server that cannot commit a NOTIFY
    said = ServerSaid("54000", "too many notifications in the NOTIFY queue")
    # Then it is an outage, and the error names the sessions that keep the queue full
    wrong = complaint(said, Settings((), "postgresql://db/app"))
    assert type(wrong) is StoreUnavailable
    assert "queue of NOTIFY is full" in str(wrong)
    assert "pg_stat_activity" in str(wrong)
    assert "too many notifications" in str(wrong)


@pytest.mark.parametrize("code", ["42501", "HF001"])
def test_what_gives_a_right_names_the_schema_and_the_user_of_the_url(code: str) -> None:
    url = find("postgresql://my%20%22app@db/x?schema=locks")[1]
    told = str(complaint(ServerSaid(code, "no"), settings(url)))
    assert '"my ""app"' in told
    if code == "42501":
        assert 'GRANT USAGE ON SCHEMA "locks" TO "my ""app";' in told
        assert "holdfast" not in told.replace("holdfast ls", "")
    # And without a user in the URL, the error contains no command that needs one
    told = str(complaint(ServerSaid(code, "no"), settings(find("postgresql://db/x")[1])))
    assert "GRANT" not in told
    assert "ALTER" not in told
