"""Certification: the steps that show a Coworld is *Executable*, with the evidence in a record and on a page."""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
