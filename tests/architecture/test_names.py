"""One name, one thing: whatever a person imports from the four packages, a name says which class is meant."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

PACKAGES = ("coworld_core", "coworld_runner", "coworld_client", "coworld_cli")


def public_modules() -> Iterator[str]:
    for package in PACKAGES:
        yield package
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not any(part.startswith("_") for part in found.name.split(".")):
                yield found.name


def test_no_two_public_classes_share_a_name() -> None:
    """Classes, and types spelt as one, that a public module has or hands on."""
    homes: dict[str, dict[int, str]] = {}
    for module_name in public_modules():
        module = importlib.import_module(module_name)
        own = {
            name for name, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module_name
        }
        for name in own | set(getattr(module, "__all__", ())):
            if name[0].isupper() and not name.isupper():
                homes.setdefault(name, {}).setdefault(id(getattr(module, name)), module_name)
    assert len(homes) > 300, "the packages have not been looked through"
    shared = {name: sorted(found.values()) for name, found in homes.items() if len(found) > 1}
    assert shared == {}


def test_no_two_namespaces_share_a_name() -> None:
    """What is imported from the top of a package, and from the platform's wire, may be imported side by side."""
    seen: dict[str, str] = {}
    for package in ("coworld_core", "coworld_core.api", "coworld_runner", "coworld_client"):
        for name in importlib.import_module(package).__all__:
            assert seen.setdefault(name, package) == package, f"{name} of {seen[name]} and of {package}"
