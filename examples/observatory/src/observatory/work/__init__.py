"""Playing episodes: admission of programs, lineups, the queue, and the worker."""
