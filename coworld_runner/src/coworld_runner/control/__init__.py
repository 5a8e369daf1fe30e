"""One controller for the episodes of this machine: it starts them, finds those of other processes, and stops both.

Nothing here knows how an episode is played (`episode`) or what its files say (`records`).
"""
