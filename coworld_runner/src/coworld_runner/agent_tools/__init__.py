"""What is in a folder, as tools of the Model Context Protocol for agents that write code.

A tool calls a function of the library and returns what that returns; what a tool may touch is decided by `FolderLimit`.
No rule of the domain is here.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
