"""What plays episodes: what may run, who sits where, the queue, and the worker that takes from it."""
