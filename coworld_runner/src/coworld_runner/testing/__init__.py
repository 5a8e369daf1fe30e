"""What tests of backends, and of what runs on them, are made of.

``BackendConformance`` is the contract of ``coworld_runner.backend`` as a pytest class: subclass it for a backend of
your own. ``FakeBackend`` runs programs inside this process. ``leaks`` makes a test fail that leaves something behind.
``subject`` is the program that the checks run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conformance import Arena, BackendConformance
    from .fake import FakeBackend, FakeContext
    from .leaks import leak_check, private_scratch

__all__ = ["Arena", "BackendConformance", "FakeBackend", "FakeContext", "leak_check", "private_scratch"]

_HOMES = {
    "Arena": "conformance",
    "BackendConformance": "conformance",
    "FakeBackend": "fake",
    "FakeContext": "fake",
    "leak_check": "leaks",
    "private_scratch": "leaks",
}

if "pytest" in sys.modules:
    # so that a failed assertion of a check shows its values, as those of a test file do
    sys.modules["pytest"].register_assert_rewrite(f"{__name__}.conformance", f"{__name__}.leaks")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
