"""What was played here: an index over the workspaces, to search, query, label, remove and export runs.

The folders are the truth: the index follows them, and can be deleted at any time.
"""
