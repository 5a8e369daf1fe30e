"""The process backend: programs on this machine, each below a shim that dies with the runner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coworld_core.lazy import lazy_names

if TYPE_CHECKING:
    from .process_backend import ProcessBackend as ProcessBackend
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, {".process_backend": ("ProcessBackend",)})
