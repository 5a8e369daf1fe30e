"""The parts that every run has, whatever it plays: a workspace, a scratch directory, events, unit files and a reaper.

Nothing in this package depends on what is played.
"""
