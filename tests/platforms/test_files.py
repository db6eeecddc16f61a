"""Files of holdfast that can't be opened for lack of descriptors give one clear error."""

from __future__ import annotations

import pytest

from holdfast import StoreUnavailable
from holdfast.stores.mysql import schema
from holdfast.stores.postgres import ddl
from tests.faults.limits import no_descriptors


def test_the_schema_of_mysql_without_descriptors_is_a_clear_error() -> None:
    list(schema.statements("holdfast"))  # so that no module is missing
    with no_descriptors(), pytest.raises(StoreUnavailable, match="raise the limit"):
        list(schema.statements("holdfast"))


def test_the_schema_of_postgres_without_descriptors_is_a_clear_error() -> None:
    ddl._made("holdfast", ("owners",), ())
    with no_descriptors(), pytest.raises(StoreUnavailable, match="raise the limit"):
        ddl._made("holdfast", ("owners",), ())
