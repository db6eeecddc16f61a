"""Serial queues on ZooKeeper: persistent nodes are the jobs, ephemeral ones mark what is delivered.

::

    /holdfast/.queues/refunds/
        groups/bank:4001/0!0000000007          a job, numbered by the server: the group's order
        jobs/9f86d081884c7d65-1-0              a job of the plain lane
        ready/bank:4001!0!0000000007!0!0!0!!!0000000042   the entry of a group, in order
        plain/!9f86d081884c7d65-1-0!0!0!0!!!0000000043    that of a job of the plain lane
        taken/bank:4001!0!00...                a mark, called as its entry: ephemeral
        dead/0000000003                        a dead letter
        idle/5e884898da28...                   one who waits for a job: ephemeral
        lanes/ ids/                            what puts are remembered by
        accepted done removed                  whose versions count jobs
        pace pulse                             the rate; what renewals write to

A group has one **entry**, whose name says all that a taker must know: the first job, the attempts
before, and when it is due. So one list of ``ready`` and one of ``plain`` show who is served next,
and what is listed stays true until the entry is gone, as nobody changes its name. Four rules:

* **To take is to create the mark of an entry**, and the first write to the entry, in one
  transaction. Nobody else can, as long as the mark or what was written is there. A list that is
  old costs a refusal, and never more.
* **A mark ends with its session.** Then the entry, which still stands at its old place, says by
  what was written to it that somebody had it: its attempt counts.
* **To settle deletes the mark**, in one transaction with all else. Who lost it changes nothing.
* **The time is that of the leader**, as the answer to the very transaction says it. What a client
  reckons only decides when it tries.
"""
