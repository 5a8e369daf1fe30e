"""Tools for testing backends and the code that runs on them.

`BackendConformance` is the contract of `coworld_runner.backend` as a pytest class: subclass it to test your own
backend. `FakeBackend` runs programs inside this process. `leaks` fails tests that leave something behind.
`subject` is the program that the checks run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .conformance import Arena as Arena
    from .conformance import BackendConformance as BackendConformance
    from .fake_backend import FakeBackend as FakeBackend
    from .fake_backend import FakeContext as FakeContext
    from .leaks import leak_check as leak_check
    from .leaks import private_scratch as private_scratch
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".conformance": ("Arena", "BackendConformance"),
            ".fake_backend": ("FakeBackend", "FakeContext"),
            ".leaks": ("leak_check", "private_scratch"),
        },
    )

if "pytest" in sys.modules:
    # Makes failed assertions in the checks show their values, as in test files
    _parts = ("kit", "making", "output", "sharing", "stopping")
    sys.modules["pytest"].register_assert_rewrite(
        f"{__name__}.leaks", *(f"{__name__}._conformance_{part}" for part in _parts)
    )
