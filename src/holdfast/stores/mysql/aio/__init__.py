"""The asyncio half: connections of asyncmy, and the port that uses them."""
