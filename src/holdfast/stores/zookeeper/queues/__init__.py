"""Serial queues on ZooKeeper: persistent nodes are jobs, ephemeral nodes mark deliveries.

::

    /holdfast/.queues/refunds/
        groups/bank:4001/0!0000000007          a job, numbered by the server: the group's order
        jobs/9f86d081884c7d65-1-0              an ungrouped job
        ready/bank:4001!0!0000000007!0!0!0!!!0000000042   the entry of a group, in order
        plain/!9f86d081884c7d65-1-0!0!0!0!!!0000000043    the entry of an ungrouped job
        taken/bank:4001!0!00...                a mark, named after its entry: ephemeral
        dead/0000000003                        a dead letter
        idle/5e884898da28...                   a take that waits for a job: ephemeral
        accepted done removed                  nodes whose versions count jobs
        pace                                   a node with the state of the rate limit
        pulse                                  a node to which renewals write

``lanes/`` keeps the last put of each producer, and ``ids/`` the ids of the dedup window.

A group has one **entry**, whose name contains all that a taker needs: the first job, the former
attempts, and when it is due. So one list of ``ready`` and one of ``plain`` show the next jobs.
The name of a node never changes, so a listed entry stays correct until it is deleted. Four rules:

* **A take creates the mark of an entry**, and writes to the entry for the first time, in one
  transaction. While the mark exists, or after that first write, this transaction fails for every
  other client. A list that is out of date only costs a refused transaction.
* **A mark ends with its session.** The entry then keeps its place in the order. The data of the
  entry show that its job was delivered, so the attempt counts.
* **A settle deletes the mark**, in one transaction with its other changes. A worker that has lost
  its mark changes nothing.
* **The time is that of the leader**, from the answer to the same transaction. A client estimates
  this time only to choose when it tries.
"""
