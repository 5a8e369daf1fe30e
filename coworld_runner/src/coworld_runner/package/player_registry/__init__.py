"""Players by name and version in a directory of this machine, and what such a name means where a player is named.

Versions are kept by content, beside one log for each name, which is append-only. Nothing here needs a network.
"""
