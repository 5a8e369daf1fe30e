"""Puts the source of modules that run in containers into wheels a second time (``coworld_runner/_own_source.py``)."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds ``NAME.py.txt`` beside ``NAME.py``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, except to an editable installation, which has the sources themselves."""
        if version == "editable":
            return
        package = Path(self.root, "src", "coworld_runner")
        for path in (package / "https_proxy.py", *sorted((package / "collector").glob("*.py"))):
            build_data["force_include"][str(path)] = f"coworld_runner/{path.relative_to(package).as_posix()}.txt"
