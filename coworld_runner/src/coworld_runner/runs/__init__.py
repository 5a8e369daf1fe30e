"""What every run has, whatever it plays: a workspace, a scratch directory, events, files of units, and a reaper.

Nothing here knows what is played.
"""
