"""What tests of backends, and of what runs on them, are made of.

``BackendConformance`` is the contract of ``coworld_runner.backend`` as a pytest class: subclass it for a backend of
your own. ``FakeBackend`` runs programs inside this process. ``leaks`` makes a test fail that leaves something behind.
``subject`` is the program that the checks run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .conformance import Arena as Arena
    from .conformance import BackendConformance as BackendConformance
    from .fake import FakeBackend as FakeBackend
    from .fake import FakeContext as FakeContext
    from .leaks import leak_check as leak_check
    from .leaks import private_scratch as private_scratch

if "pytest" in sys.modules:
    # so that a failed assertion of a check shows its values, as those of a test file do
    _parts = ("kit", "making", "output", "sharing", "stopping")
    sys.modules["pytest"].register_assert_rewrite(
        f"{__name__}.leaks", *(f"{__name__}._conformance_{part}" for part in _parts)
    )

__getattr__, __dir__ = lazy_names(__name__)
