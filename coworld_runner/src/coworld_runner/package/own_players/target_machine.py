"""The machine that a program is built for, and whether the program can run on another."""

from __future__ import annotations

import platform
import struct

__all__ = ["here", "machine_of", "runs_on"]


_ELF_MACHINES = {
    3: "386",
    8: "mips",
    20: "ppc",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "amd64",
    183: "arm64",
    243: "riscv64",
    258: "loong64",
}
_MACHO = {0x01000007: "amd64", 0x0100000C: "arm64"}


def machine_of(content: bytes) -> str:
    """Return the os/architecture of machine code; empty for anything else."""
    if content.startswith(b"\x7fELF") and len(content) >= 20:
        order = ">" if content[5] == 2 else "<"
        (machine,) = struct.unpack(f"{order}H", content[18:20])
        little = {21: "ppc64le", 8: "mipsle"} if order == "<" else {}
        return f"linux/{little.get(machine) or _ELF_MACHINES.get(machine) or f'machine-{machine}'}"
    if content[:4] in (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe") and len(content) >= 8:
        (cpu,) = struct.unpack("<I", content[4:8])
        return f"darwin/{_MACHO.get(cpu, 'universal')}"
    return "windows" if content.startswith(b"MZ") else ""


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "i386": "386", "armv7l": "arm"}
"""Container engines' names of processors, by the names that operating systems use."""


def here() -> str:
    """Return the os/architecture of this machine."""
    processor = platform.machine().lower()
    return f"{platform.system().lower()}/{_ARCHITECTURES.get(processor, processor)}"


def runs_on(needs: str, where: str) -> bool:
    """Whether machine code for one os/architecture runs on another."""
    system, _, architecture = needs.partition("/")
    there, _, rest = where.lower().partition("/")
    processor = rest.partition("/")[0]
    processor = _ARCHITECTURES.get(processor, processor)
    if system != there:
        return False
    return architecture in (processor, "universal") or (architecture, processor) == ("386", "amd64")
