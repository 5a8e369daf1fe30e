"""The places units run in; each is imported on first use, so that none costs anything until it is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .docker import DockerBackend
    from .process import ProcessBackend

__all__ = ["DockerBackend", "ProcessBackend"]


def __getattr__(name: str) -> object:
    if name == "ProcessBackend":
        from .process import ProcessBackend

        return ProcessBackend
    if name == "DockerBackend":
        from .docker import DockerBackend

        return DockerBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
