"""All code of the embedded store that may block: files, kernel locks, SQLite, sockets.

It doesn't use asyncio. The sync face calls this code on the caller's thread; under asyncio, the
same engine runs on one worker thread.
"""
