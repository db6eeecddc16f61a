"""The port for threads; and the driver, with its own threads, for the sync and the asyncio face."""
