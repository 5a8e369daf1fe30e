"""Wheels that can be installed without an index."""

from __future__ import annotations

import zipfile
from pathlib import Path

__all__ = ["write_wheel"]


def write_wheel(directory: Path, name: str, version: str) -> None:
    """Write a wheel with one module."""
    directory.mkdir(parents=True, exist_ok=True)
    told = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", f"version = {version!r}\n")
        archive.writestr(f"{told}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(
            f"{told}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{told}/RECORD", f"{name}.py,,\n{told}/METADATA,,\n{told}/WHEEL,,\n{told}/RECORD,,\n")
