"""Refunds: accepted immediately, paid later, in order, once. `python -m refunds` runs the example.

The application; copy from these modules:

    node       the HTTP service: accepts a refund, replies with 200, 202 or 409
    worker     takes refunds from the serial queue, and requests the payments from the bank
    notice     sends notices to customers, in no order
    ledger     a database with the result of each refund; it refuses older fences
    refund     the data of a refund
    settings   addresses and numbers, from the environment
    web        a small HTTP server and client, from the standard library

The modules that show that the application works:

    bank       slow and strict: records payments that are repeated, too early, or at the same time
    load       customers that send refunds, and repeat requests without a reply
    crew       starts the processes, and kills some of them
    play       runs everything together until every refund is paid
    check      compares the promises with the bank's record and the ledger
    picture    draws a timeline in the terminal
"""
