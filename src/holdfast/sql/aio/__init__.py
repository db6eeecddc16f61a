"""The row lock for asyncio; what belongs to an event loop."""
