"""Connections that a client has ended: each counts until the server has ended its session, too.

Without this, a new connection could be made while the server still starts, answers or ends the old
one. A busy server takes a second for that, and would have more sessions than the client may have.
"""
