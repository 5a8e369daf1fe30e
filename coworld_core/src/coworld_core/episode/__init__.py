"""One episode as values: the request, the events, the fault if there was one, and the files it leaves.

Nothing here plays an episode: ``coworld_runner.episode`` does.
"""
