"""Paint Arena's image, built from the installed packages, without a package index."""

from __future__ import annotations

from pathlib import Path

from .images import ensure_python_image

__all__ = ["LIBRARIES", "paintarena_image"]

_PAINT = Path(__file__).parents[2] / "examples" / "paintarena"
_DOCKERFILE = """
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN ln -s /usr/bin/python3 /usr/local/bin/python
ENV PYTHONPATH=/opt/site PYTHONUNBUFFERED=1
COPY site /opt/site
COPY paintarena /opt/site/paintarena
RUN python -c "import paintarena.hosting, paintarena.server, paintarena.players.frontier, paintarena.players.sweep"
"""
LIBRARIES = ["anyio", "coworld_core", "coworld_runner", "idna", "lazy_loader", "typing_extensions", "websockets"]
"""All that the game and its players import besides the standard library; its image is that small."""


def paintarena_image() -> str:
    """The image, with the last lines of the real Dockerfile, which set its user and command."""
    _, found, rest = (_PAINT / "Dockerfile").read_text().partition("# No USER")
    assert found
    files = {"paintarena": _PAINT / "src" / "paintarena"}
    return ensure_python_image("coworld-paintarena", f"{_DOCKERFILE}{found}{rest}", files, LIBRARIES)
