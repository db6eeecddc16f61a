"""Starting a thread without waiting for ever: what blocks stands in a room of its own."""
