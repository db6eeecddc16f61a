"""What a lock is, written once for threads and asyncio. Begin with `ports`."""
