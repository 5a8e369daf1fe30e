"""Wraps games of other libraries as rules of the kit, and makes whole packages from them.

Contains an adapter for each library, the lists of games that can be wrapped, and the writer of packages. An adapter
imports its library only when rules are made from it. The rules of single games do not belong here.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
