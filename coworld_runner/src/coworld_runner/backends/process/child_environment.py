"""What a program or process that we start sees of our own environment: what is listed here, and nothing else.

The rest of the caller's environment may hold secrets, and whatever plays may print what it sees into a log.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._python_environment import PythonEnvironment

__all__ = ["child_environment", "python_path"]

_OWN = frozenset(
    [
        *("HOME", "TMPDIR", "USER", "LOGNAME", "LANGUAGE", "TZ", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
        # Where libraries are found, and what they draw on
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND"),
        *("SDL_VIDEODRIVER", "SDL_AUDIODRIVER", "MUJOCO_GL", "PYOPENGL_PLATFORM"),
        # Which processors and graphics cards are used, and how
        *("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "VECLIB_MAXIMUM_THREADS", "MALLOC_ARENA_MAX"),
        *("TF_CPP_MIN_LOG_LEVEL", "TF_ENABLE_ONEDNN_OPTS", "TF_FORCE_GPU_ALLOW_GROWTH", "TF_XLA_FLAGS"),
    ]
)
"""Variables that a user's own functions get besides those of every program, when they run in another process."""
_OWN_KINDS = (
    *("LC_", "PYTHON", "OMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_", "NUMEXPR_", "NUMBA_"),
    *("CUDA_", "NVIDIA_", "NCCL_", "XLA_", "JAX_", "TORCH_", "PYTORCH_"),
)
"""How the names of more such variables begin."""


def child_environment(private: Path | None, python: PythonEnvironment | None = None) -> dict[str, str]:
    """The environment of a program or process that we start.

    Args:
        private: A directory with `home` and `tmp`, which are the program's own. None: what runs are functions of the
            user's own program, which also get its home, and what the libraries of training programs read.
        python: The environment of Python that the program runs in; None: that of this process.
    """
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH") or os.defpath]
    if python is not None:
        programs.insert(0, str(python.programs))
    environment: dict[str, str] = {}
    if private is None:
        environment = {name: value for name, value in os.environ.items() if name in _OWN or name.startswith(_OWN_KINDS)}
    else:
        environment = {"HOME": str(private / "home"), "TMPDIR": str(private / "tmp"), "PYTHONUNBUFFERED": "1"}
    environment |= {"PATH": os.pathsep.join(programs), "LANG": os.environ.get("LANG") or "C.UTF-8"}
    if python is not None or sys.prefix != sys.base_prefix:
        environment["VIRTUAL_ENV"] = str(python.place) if python is not None else sys.prefix
    if path := python_path():
        environment["PYTHONPATH"] = path
    return environment


def python_path() -> str:
    """The caller's PYTHONPATH, for programs that run in another directory; empty when there is none."""
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(str(Path(place).absolute()) for place in places if place)
