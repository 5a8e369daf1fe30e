"""The services of a compose file with the files that it leads to: `extends`, `include`, and the override file."""

from __future__ import annotations

from pathlib import Path

from coworld_core.text.phrases import closest

from ._compose_places import Reading, YamlNode
from ._compose_variables import shown

__all__ = ["OVERRIDE_NAMES", "root_of", "service_entries"]

OVERRIDE_NAMES = tuple(
    f"{name}.override.{suffix}" for name in ("compose", "docker-compose") for suffix in ("yml", "yaml")
)
"""Names of files that are merged over the compose file beside them; the first one that exists is used."""
_MOST_EXTENDED = 64
"""Services that one leads to by `extends`."""


def root_of(reading: Reading, *, overridden: bool) -> YamlNode:
    """Return the top-level mapping of a compose file.

    Args:
        reading: The reading of the file.
        overridden: Whether to merge the override file beside it over it, as compose does for a file that it finds.

    Raises:
        UsageError: The file does not exist or cannot be read.
        ValueError: A file does not hold a mapping; the report has the reason.
    """
    root = reading.root()
    beside = (reading.path.with_name(name) for name in OVERRIDE_NAMES)
    path = next((path for path in beside if path.is_file()), None) if overridden else None
    return reading.further(path).root().over(root) if path is not None else root


def service_entries(root: YamlNode) -> dict[str, YamlNode]:
    """Return the services of a compose file, each merged over what it extends, with those of included files.

    Args:
        root: The file's top-level mapping.

    Raises:
        ValueError: A file has an error, which is in the report.
    """
    return _entries(root, (root.reading.path,))


def _entries(root: YamlNode, path: tuple[Path, ...]) -> dict[str, YamlNode]:
    """Return the services of a file; `path` is the way to it through the files that include it."""
    top = root.entries("The file")
    found: dict[str, YamlNode] = {}
    for place in top["include"].items() if "include" in top else ():
        for name, service in _included(place, path).items():
            if name in found:
                raise place.wrong("service_twice", f"The service {name!r} is in two included files.")
            found[name] = service
    if "services" not in top:
        if found:
            return found
        near = closest("services", top)
        hint = f"Did you mean `services` instead of {near!r}?" if near else "List the images under `services:`."
        raise root.wrong("services_missing", "The file has no `services`.", hint=hint)
    own = top["services"].entries("`services`")
    if not own and not top["services"].node.value:
        raise top["services"].wrong("services_missing", "`services` is empty.", at_key=True)
    if both := sorted(own.keys() & found.keys()):
        message = f"The service {both[0]!r} is in an included file, too."
        raise own[both[0]].wrong("service_twice", message, at_key=True, hint="Rename one of them, or extend it.")
    return found | {name: _extended(place, ()) for name, place in own.items()}


def _included(node: YamlNode, path: tuple[Path, ...]) -> dict[str, YamlNode]:
    """Return the services of one entry of `include`."""
    entry = node.entries("An entry of `include`") if node.node.id == "mapping" else {"path": node}
    if "path" not in entry:
        raise node.wrong("include_missing", "An entry of `include` names no `path`.", hint="Name the file to include.")
    files = [_file(item) for item in _texts(entry["path"])]
    directory = files[0].parent if files else node.reading.directory
    if "project_directory" in entry:
        directory = node.reading.directory / entry["project_directory"].text()
    root: YamlNode | None = None
    for file in files:
        if file in path:
            raise node.wrong("include_circle", f"{shown(str(file))} includes itself.", hint="Remove one `include`.")
        reading = node.reading.further(file, directory=directory) if root is None else root.reading.further(file)
        reading.directory = directory
        for item in _texts(entry["env_file"]) if "env_file" in entry and root is None else ():
            reading.add_env_file(_file(item))
        root = reading.root().over(root)
    return _entries(root, (*path, *files)) if root is not None else {}


def _extended(node: YamlNode, seen: tuple[tuple[Path, str], ...]) -> YamlNode:
    """Return a service merged over what it extends."""
    if node.base is not None:
        # Each of two files that are merged may extend another service
        return _extended(node.alone(), seen).over(_extended(node.base, seen))
    if node.node.id != "mapping":
        return node
    extends = node.entries("A service").get("extends")
    if extends is None or extends.is_null:
        return node
    entry = extends.entries("`extends`") if extends.node.id == "mapping" else {"service": extends}
    if "service" not in entry:
        raise extends.wrong("extends_missing", "`extends` names no `service`.", hint="Name the service to extend.")
    name, reading = entry["service"].text(), node.reading
    if "file" in entry:
        reading = reading.further(_file(entry["file"]))
    step = (reading.path, name)
    if step in seen or len(seen) == _MOST_EXTENDED:
        raise extends.wrong("extends_circle", f"The service {name!r} extends itself.", hint="Remove one `extends`.")
    services = reading.root().entries("The file").get("services")
    others = services.entries("`services`") if services is not None else {}
    if name not in others:
        near = closest(name, others)
        hint = f"Did you mean {near!r}?" if near else "Name a service of that file."
        raise entry["service"].wrong("extends_unknown", f"{reading.path.name} has no service {name!r}.", hint=hint)
    return node.over(_extended(others[name], (*seen, step)))


def _texts(node: YamlNode) -> list[YamlNode]:
    return node.items() if node.node.id == "sequence" else [node]


def _file(node: YamlNode) -> Path:
    text = node.text()
    path = node.reading.directory / Path(text).expanduser()
    if not text or "\0" in text or not path.is_file():
        hint = "Paths are relative to the file that names them; a file that is elsewhere has to be fetched first."
        raise node.wrong("compose_missing", f"There is no file {shown(text)!r}.", hint=hint)
    return path
