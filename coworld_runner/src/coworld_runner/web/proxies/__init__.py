"""The ways out of an episode: to named HTTPS hosts, and to language models.

These modules are programs for Python 3.9 or later, without dependencies, because they run in containers beside the
episode's.
"""
