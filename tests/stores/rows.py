"""The rows that holdfast keeps of one name in the tables of a database, and damage to them."""

from __future__ import annotations

from tests.stores.tables import Ask, TablesGround


class RowsGround(TablesGround):
    """See `TablesGround`; ``items`` takes a whole name.

    ``lines`` and ``claims`` are the table of names and the table of their claims.
    """

    ends = ("",)
    believed = ("name",)

    def __init__(
        self, url: str, ask: Ask, schema: str, lines: str = "lines", claims: str = "claims"
    ) -> None:
        super().__init__(url, ask, schema, {lines: "name", claims: "name"})
