"""Time, threads, the event loop and forking, as the core may use them."""
