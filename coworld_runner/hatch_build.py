"""Puts the source of modules that run in containers into wheels a second time (``coworld_runner/_own_source.py``)."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds ``NAME.py.txt`` beside ``NAME.py``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files, except to an editable installation, which has the sources themselves."""
        if version == "editable":
            return
        package = Path(self.root, "src", "coworld_runner")
        # copies: a file that is included under another name is not included under its own
        self._copies = TemporaryDirectory()
        for number, path in enumerate((package / "https_proxy.py", *sorted((package / "collector").glob("*.py")))):
            copy = shutil.copyfile(path, Path(self._copies.name, str(number)))
            build_data["force_include"][str(copy)] = f"coworld_runner/{path.relative_to(package).as_posix()}.txt"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copies."""
        if version != "editable":
            self._copies.cleanup()
