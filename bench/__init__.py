"""What holdfast costs, next to what others cost: measured together, told with its spread.

Words:

* A **contender** is a way to take a lock: ours, a peer's, or the bare system call.
* An **arena** is a store with the contenders that compete there, and our targets. A new store is
  a new file in ``bench/stores``, a page in ``docs``, and what its picture asks. If it needs a
  server, the run starts one of its own.
* A **suite** asks one question, in one or more **panels**: one table each.
* A **case** is one row of a panel. A **reading** is what one round of it gave, raw.
* A **figure** is what all rounds gave: a value, its quartiles, and its ratio to the reference.

The method, in three rules:

1. The cases of a panel take turns in every round, in an order that rotates, so that a neighbour's
   load or another speed of the processor hits all alike.
2. A ratio is taken inside a round, and then the median over the rounds. It is told with its
   quartiles. Microseconds belong to one machine; ratios travel.
3. Every reading is taken in processes of its own, forked for it, with a folder of their own. The
   process that compares never takes a lock, and no loop and no wait is without a bound.
"""
