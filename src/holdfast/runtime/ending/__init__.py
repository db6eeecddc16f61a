"""Connections that a client has ended: each counts until the server has ended its session, too.

A new connection would else be made while the server still has the old one to start up, to answer or
to end. A busy server takes a second for that, and has more sessions than the client may have.
"""
