"""What needs an event loop: connections of asyncmy, and the port that uses them."""
