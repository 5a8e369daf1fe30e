"""One episode as values: what was asked for, what happened, whose fault it was, and what is left of it on disk.

Nothing here plays an episode: ``coworld_runner.episode`` does.
"""
