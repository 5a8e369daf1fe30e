"""HTTP, websockets and pages, as clients and as servers: what a page or a socket needs, whatever is sent over it.

Knows no unit, episode or run. Peers are not trusted: none can hold the event loop or fill the memory.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
