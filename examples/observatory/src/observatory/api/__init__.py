"""The routes of the API, a module for each noun, and what they share (``calls``, ``pages``, ``views``).

Here requests become calls of the library below and values become JSON; what a program on this machine, a worker or a
page does without a request is elsewhere in the package.
"""
