"""Locks in the formats of other libraries, on the keys that services use already.

A dialect is a store with the usual verbs and fewer capabilities. Most dialects have no line of
claims: waiters are not served in order and can't be inspected. A dialect refuses requests that it
can't carry out.

    plain/       a key with a token and a ttl: redis-py's Lock, redlock, and most others
    timestamp/   a key with the time at which it expires: services without scripts
    redisson/    a hash of owners and counts, with its helper keys: Redisson in Java
    families     the format of a key, and the refusal if two formats would meet on one key
    claims       numbers that name a claim without a fence, and digests of tokens
    opening      from a dialect's URL to the settings of a connection
    port         the connection of a dialect; for threads in blocking, for a loop in aio

Dialects use the connections of ``stores/redis``. These connections have time limits and notice a
fork. They never send the undo of a request before the request itself.
"""
