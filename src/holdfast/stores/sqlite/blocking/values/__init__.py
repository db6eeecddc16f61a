"""The values of refresh guards in a separate database; see docs/stores/sqlite.md."""
