"""Finds out whether an engine runs programs for another machine, by running one: no call of its API says so."""

from __future__ import annotations

import io
import secrets
import struct
import tarfile
from collections.abc import Mapping

import anyio

from coworld_core.docker_address import EngineGone, EngineRefused
from coworld_core.errors import ImageError
from coworld_core.ids import new_run_id
from coworld_core.images import Platform, runs_on

from ..engine import run_labels
from ._docker_labels import object_name, remove_container
from ._engine import Engine, path_segment

__all__ = ["Emulation", "ending_program"]

_PROGRAM = "coworld-emulation"
_REMOVE_SECONDS = 30.0

_ENDS: Mapping[str, tuple[str, int, int, str]] = {
    "amd64": ("<Q", 62, 0, "b83c000000 31ff 0f05"),
    "386": ("<I", 3, 0, "b801000000 31db cd80"),
    "arm64": ("<Q", 183, 0, "a80b80d2 000080d2 010000d4"),
    "arm": ("<I", 40, 0x5000000, "0170a0e3 0000a0e3 000000ef"),
    "riscv64": ("<Q", 243, 0, "9308d005 13050000 73000000"),
    "ppc64le": ("<Q", 21, 2, "01000038 00006038 02000044"),
    "s390x": (">Q", 22, 0, "a7290000 0a01"),
}
"""Byte order and width, ELF's number of the machine and its flags, and machine code that ends with status 0."""


def ending_program(architecture: str) -> bytes | None:
    """The smallest program for a machine, which ends at once with status 0; None for a machine that is not known.

    Args:
        architecture: Named as in images: `arm64`.
    """
    if architecture not in _ENDS:
        return None
    (order, word), machine, flags, code = _ENDS[architecture]
    start, wide = 0x400000, word == "Q"
    header, segment = (64, 56) if wide else (52, 32)
    content = bytes.fromhex(code)
    size = header + segment + len(content)
    elf = b"\x7fELF" + bytes([1 + wide, 1 + (order == ">"), 1]) + bytes(9)
    elf += struct.pack(f"{order}HHI3{word}", 2, machine, 1, start + header + segment, header, 0)
    elf += struct.pack(f"{order}IHHHHHH", flags, header, segment, 1, 0, 0, 0)
    # One segment with the whole file; readable and executable. The flags stand elsewhere in the wide form
    if wide:
        elf += struct.pack(f"{order}II6Q", 1, 5, 0, start, start, size, size, 0x1000)
    else:
        elf += struct.pack(f"{order}8I", 1, 0, start, start, size, size, 5, 0x1000)
    return elf + content


class Emulation:
    """Which other machines' programs an engine runs.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, bool] = {}
        self._lock = anyio.Lock()

    async def runs(self, platform: str, *, image: str) -> bool:
        """Whether the engine runs programs for a platform; True if that cannot be found out.

        Args:
            platform: os/architecture of the program.
            image: Any image on the engine. Nothing of it is run.
        """
        if runs_on(platform, self._engine.platform):
            return True
        async with self._lock:
            if platform not in self._known:
                self._known[platform] = await self.try_out(platform, image=image)
        return self._known[platform]

    async def require(self, image: str, platform: str) -> None:
        """Check that the engine runs an image.

        Raises:
            ImageError: It is for another machine, which the engine does not emulate.
        """
        if not await self.runs(platform, image=image):
            where = self._engine.platform
            raise ImageError(
                f"The image {image!r} is for {platform}, and it would run on {where}, which does not emulate that.",
                code="image_wrong_platform",
                hint=f"Build it for {where}: docker build --platform {where} ...; nothing was started.",
                context={"image": image, "platform": platform, "wanted": where},
            )

    async def try_out(self, platform: str, *, image: str) -> bool:
        """Run a program for a platform; returns whether it ran, and True if that cannot be found out."""
        system, _, processor = platform.partition("/")
        content = ending_program(Platform.parse(platform).architecture) if processor else None
        if system != "linux" or content is None:
            return True
        run_id = new_run_id()
        name = object_name(run_id, "emulation", secrets.token_hex(4))
        path = f"/containers/{path_segment(name)}"
        # Without an init process, which would start whatever it is to run
        host = {"NetworkMode": "none", "CapDrop": ["ALL"], "LogConfig": {"Type": "none"}}
        body = {"Image": image, "Entrypoint": [f"/{_PROGRAM}"], "Cmd": [], "User": "0", "WorkingDir": "/"}
        try:
            made = {**body, "Labels": run_labels(run_id), "HostConfig": host, "Healthcheck": {"Test": ["NONE"]}}
            await self._engine.call("POST", "/containers/create", query={"name": name}, body=made)
            archive = _archive(content)
            async with self._engine.stream("PUT", f"{path}/archive", query={"path": "/"}, content=archive):
                pass
            await self._engine.call("POST", f"{path}/start")
            ended = await self._engine.call("POST", f"{path}/wait")
        except EngineRefused as error:
            return "exec format error" not in error.server_message
        except EngineGone:
            return True
        finally:
            with anyio.move_on_after(_REMOVE_SECONDS, shield=True):
                await remove_container(self._engine, name)
        return int(ended.get("StatusCode") or 0) == 0


def _archive(content: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        entry = tarfile.TarInfo(_PROGRAM)
        entry.mode, entry.size = 0o755, len(content)
        archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()
