"""Environments of one's own, named by a file or a module, and in it perhaps by what makes them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coworld_core.scopes import load_file, load_module

__all__ = ["OwnModule", "is_own"]


def is_own(name: str) -> bool:
    """Whether a name such as `./myenv.py`, `myenv` or `myenv:make` names a file, or a module that can be imported."""
    place = name.partition(":")[0]
    top = place.partition(".")[0]
    here = Path(f"{top}.py").is_file() or Path(top, "__init__.py").is_file()
    return place.endswith(".py") or (top.isidentifier() and (here or importlib.util.find_spec(top) is not None))


@dataclass(frozen=True)
class OwnModule:
    """The module of an environment of one's own.

    Attributes:
        name: Its name, without `.py`.
        maker: What makes the environment, in it; empty if it was not named.
        module: The module.
        directory: Where it is, if it is not installed; otherwise empty.
        needs: The distributions that install it.
    """

    name: str
    maker: str
    module: Any
    directory: str
    needs: tuple[str, ...]

    @classmethod
    def load(cls, source: str) -> OwnModule:
        """Load the module that a source names, as in `is_own`.

        Raises:
            ValueError: It cannot be loaded, or has no such maker; the message says why.
        """
        place, _, maker = source.partition(":")
        module = _loaded(place)
        if maker and not callable(getattr(module, maker, None)):
            raise ValueError(f"{place} has nothing to call by the name of {maker}")
        name = Path(place).stem if place.endswith(".py") else place
        root = Path(place).resolve().parent if place.endswith(".py") else Path.cwd()
        if Path(str(module.__file__)).resolve().is_relative_to(root):
            return cls(name, maker, module, str(root), ())
        installed = importlib.metadata.packages_distributions().get(name.partition(".")[0], ())
        return cls(name, maker, module, "", tuple(installed))

    @property
    def made_by(self) -> Any:
        """The maker if it was named, else the module."""
        return getattr(self.module, self.maker) if self.maker else self.module


def _loaded(place: str) -> Any:
    try:
        if not place.endswith(".py"):
            return load_module(place, directory=Path.cwd())
        if not Path(place).is_file():
            raise ValueError(f"there is no file {place}")
        if not Path(place).stem.isidentifier():
            raise ValueError(f"a module cannot be named {Path(place).stem}")
        return load_file(Path(place))
    except ValueError:
        raise
    except Exception as error:
        # The file's own code runs here, so anything may be raised.
        raise ValueError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
