"""Benchmarks: measure holdfast and its peers together, and report each figure with its spread.

Words:

* A **contender** is a way to take a lock: holdfast's, a peer's (another library), or bare requests
  to the store.
* An **arena** is a store with the contenders that compete there, and our targets. A new store needs
  a file in ``bench/stores``, a page in ``docs``, and an entry in ``picture.PICTURES``. If the store
  needs a server, the run starts one.
* A **suite** answers one question, in one or more **panels**. Each panel is a table.
* A **case** is one row of a panel. A **reading** is the raw numbers from one round of a case.
* A **figure** is the result of all rounds: a value, its quartiles, and its ratio to the reference.

The method has three rules:

1. The cases of a panel take turns in every round, in an order that rotates. So the load of other
   programs and changes of the processor's speed affect all cases alike.
2. A ratio is computed inside each round; then the median of all rounds is taken. It is reported
   with its quartiles. Microseconds are valid for one machine; ratios are valid for others too.
3. New processes with a new folder take each reading. The process that compares never takes a lock.
   Every loop and every wait has a limit.
"""
