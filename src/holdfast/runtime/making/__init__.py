"""Making connections that take longer than a verb has time. The blocking part is in
``blocking``."""
