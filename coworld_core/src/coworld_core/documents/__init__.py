"""Documents of others: reading and editing JSON, checking its shape and schema, and reporting all that is wrong.

`records` are the documents that runs leave behind: written strictly, read leniently.
"""

from ..lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
