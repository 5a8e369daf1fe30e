"""The roles that look at episodes afterwards: what they are given, and what they say.

Nothing here runs such a program; `coworld_runner.roles` does.
"""
