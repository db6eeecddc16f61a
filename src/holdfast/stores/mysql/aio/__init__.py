"""The port for one event loop, and its connections of asyncmy."""
