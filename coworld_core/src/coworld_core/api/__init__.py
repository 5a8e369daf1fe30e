"""The resources of a platform's API, shared by client and server.

`Model.read(raw)` reads what a server sent and never fails because of a single field (see `odd`). A server builds
its answers with `Model(...)`, and a client its requests with `*Body`; both are strict. Names are imported on first
use.
"""

from ..lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
