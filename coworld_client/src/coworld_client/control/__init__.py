"""One controller for the episodes of a platform, the same as the runner's for this machine.

It stands on the resources of the client, and adds no call of its own.
"""
