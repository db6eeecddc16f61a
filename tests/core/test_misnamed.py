"""Messages for a store that is named by an unusable object."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.core.misnamed import of_django

SETTINGS = {"USER": "u@x", "PASSWORD": "secret", "HOST": "h", "PORT": 5432, "NAME": "db"}


@pytest.mark.parametrize(
    "settings, url",
    [
        (SETTINGS, "postgresql://u%40x:PASSWORD@h:5432/db"),
        ({**SETTINGS, "PASSWORD": "", "PORT": ""}, "postgresql://u%40x@h/db"),
        ({"USER": None, "NAME": "db"}, "postgresql:///db"),
    ],
)
def test_a_connection_of_django_is_refused_with_the_url(settings: Any, url: str) -> None:
    connection = SimpleNamespace(settings_dict=settings, vendor="postgresql")
    assert of_django(connection, {"postgresql"}).endswith(f"The URL of its database is {url}")


@pytest.mark.parametrize("settings, vendor", [(SETTINGS, "oracle"), (None, "postgresql")])
def test_a_database_that_is_no_store_has_no_url(settings: Any, vendor: str) -> None:
    connection = SimpleNamespace(settings_dict=settings, vendor=vendor)
    assert "The URL" not in of_django(connection, {"postgresql"})
