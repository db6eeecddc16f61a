"""Locks in the formats of others, on the keys that their services hold already.

A dialect is a store with the same verbs and fewer capabilities: it has no line, so nobody is
served in order and nobody who waits can be seen. What it can't do it refuses.

    plain/       a key with a token and a life: redis-py's Lock, redlock, and most others
    timestamp/   a key with the time at which it expires: services without scripts
    redisson/    a hash of owners and counts, and what belongs to it: Redisson in Java
    families     which format a key is in, and the refusal where two would meet on one key
    claims       numbers that name a claim where there are no fences, and digests of tokens
    opening      from a dialect's URL to what is needed to connect
    port         what dialects ask of a connection; for threads in blocking, for a loop in aio

Requests travel on the connections of ``stores/redis``, which are bounded, know a fork when they
see one, and never let an undo overtake what it undoes.
"""
