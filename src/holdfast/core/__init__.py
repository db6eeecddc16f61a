"""The locks, queues and guards, written once for threads and asyncio. Begin with `ports`."""
