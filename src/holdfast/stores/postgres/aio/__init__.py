"""The port for one event loop. Of ``blocking`` it takes what is said to libpq, step by step."""
