"""The values of refresh guards in a database of their own; see docs/stores/sqlite.md."""
