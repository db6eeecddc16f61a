"""Connections that a client has ended: each counts until the server has ended its session, too.

Otherwise the client could make a new connection while the server still starts, answers or ends the
old one. A busy server takes a second for that. The client would then have more sessions than it may
use.
"""
