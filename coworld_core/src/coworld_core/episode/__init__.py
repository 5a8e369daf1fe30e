"""The data of one episode: its request, its events, its faults, and the files it leaves.

Nothing here plays an episode; `coworld_runner.episode` does.
"""
