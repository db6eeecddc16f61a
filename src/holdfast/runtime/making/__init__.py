"""Making connections that take longer than a verb has time. What blocks stands in ``blocking``."""
