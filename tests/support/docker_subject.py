"""For tests on a real Docker engine: calls of the engine, and an image with the conformance suite's subject."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from coworld_core.docker_address import EngineRefused, resolve_address
from coworld_runner.backend import UnitSpec
from coworld_runner.backends.docker._engine import Engine, json_objects, path_segment
from coworld_runner.testing.conformance import SUBJECT

from .archives import tar_of
from .elsewhere import in_thread
from .images import BASE_IMAGE

__all__ = ["engine_call", "subject_image", "subject_spec"]

_DOCKERFILE = f"""FROM {BASE_IMAGE}
LABEL coworld.test=subject
COPY subject.py /subject.py
RUN cd / && python3 -c 'import subject'
"""


@functools.cache
def subject_image() -> str:
    """The image whose `/subject.py` is the conformance suite's subject; built if it does not exist."""
    source = SUBJECT.read_bytes()
    name = f"coworld-test-subject:{hashlib.sha256(source + _DOCKERFILE.encode()).hexdigest()[:12]}"

    async def build() -> None:
        async with Engine.connect(resolve_address()) as engine:
            try:
                await engine.call("GET", f"/images/{path_segment(name)}/json")
            except EngineRefused:
                async with engine.stream(
                    "POST",
                    "/build",
                    query={"t": name, "rm": True},
                    headers={"Content-Type": "application/x-tar"},
                    content=tar_of({"Dockerfile": _DOCKERFILE.encode(), "subject.py": source}),
                ) as answer:
                    said = [item async for item in json_objects(answer)]
                assert all("error" not in item for item in said), said

    in_thread(build)
    return name


def subject_spec(run_id: str, name: str, *steps: str) -> UnitSpec:
    """A spec that runs the subject with these steps."""
    argv = ("python3", "/subject.py", *steps)
    return UnitSpec(run_id=run_id, name=name, component="player", image=subject_image(), argv=argv)


async def engine_call(method: str, path: str, **more: Any) -> Any:
    """Call the engine directly, without the backend."""
    async with Engine.connect(resolve_address()) as engine:
        return await engine.call(method, path, **more)
