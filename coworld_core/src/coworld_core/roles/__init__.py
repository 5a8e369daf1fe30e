"""What programs that look at episodes afterwards get: the bundle of an episode.

Nothing here runs such a program; `coworld_runner.roles` finds episodes and bundles them.
"""
