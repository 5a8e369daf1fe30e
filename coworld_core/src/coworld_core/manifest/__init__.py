"""The manifest of a Coworld: its models, its rules, older generations, and the documents whose shape it defines.

Game configs and results are here because the manifest contains their schemas. Episodes are elsewhere.
"""

from ..lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
