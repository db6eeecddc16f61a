"""The row lock for asyncio: the parts that belong to an event loop."""
