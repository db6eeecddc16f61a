"""Refunds: accepted at once, paid later, in order, once. `python -m refunds` plays it through.

The application, which is what to copy from:

    node       the HTTP service: takes a refund, answers 200, 202 or 409
    worker     takes refunds from the serial queue and has the bank pay them
    ledger     what became of each refund, in a database, guarded by fences
    refund     what a refund is
    settings   where everything is, from the environment
    web        a few lines of HTTP and JSON, from the standard library

What shows that it works:

    bank       slow, and strict: notices who pays twice, too soon, or two at once
    load       customers, who send and send again
    crew       the processes; kills some of them
    play       all of it together, until every refund is paid
    check      what was promised beside what the bank saw
    picture    the same as a timeline in the terminal
"""
