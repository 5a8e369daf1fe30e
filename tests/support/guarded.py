"""What the long tests on a cluster guard, and whether any of it has changed since they last passed.

    python tests/support/guarded.py            ends with 0 when nothing has changed
    python tests/support/guarded.py --passed   they have just passed: writes that down

It is written into the tree, beside those tests, to be committed with the change that it speaks for.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

__all__ = ["digest"]

ROOT = Path(__file__).parents[2]
PASSED = ROOT / "tests/kubernetes/passed.sha256"

GUARDED = (
    # what is different on a cluster, and what leads an episode through it
    "coworld_runner/src/coworld_runner/backend.py",
    "coworld_runner/src/coworld_runner/backends/*.py",
    "coworld_runner/src/coworld_runner/backends/kubernetes/*.py",
    "coworld_runner/src/coworld_runner/collector/*.py",
    "coworld_runner/src/coworld_runner/runs/*.py",
    "coworld_runner/src/coworld_runner/episode/*.py",
    "coworld_runner/src/coworld_runner/plan.py",
    "coworld_runner/src/coworld_runner/testing/orphan.py",
    "coworld_runner/src/coworld_runner/worker/*.py",
    "docs/kubernetes.md",
    "docs/kubernetes/*",
    "docs/worker.md",
    "examples/observatory/src/observatory/work/*.py",
    # the tests themselves, and what they stand on
    "tests/chaos/_victim.py",
    "tests/chaos/test_kube_sigkill.py",
    "tests/faults/test_matrix.py",
    "tests/kubernetes/*.py",
    "tests/runner/test_kube_backend.py",
    "tests/support/*kube*.py",
    "tests/support/*worker*.py",
    "tests/support/arena.py",
    "tests/support/misfit_kit.py",
    "tests/support/misfits/*",
)


def digest() -> str:
    """Of all the files that are guarded, names and content."""
    whole = hashlib.sha256()
    for pattern in GUARDED:
        found = sorted(path for path in ROOT.glob(pattern) if path.is_file())
        assert found, f"{pattern} names no file any more"
        for path in found:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            whole.update(f"{path.relative_to(ROOT)} {content}\n".encode())
    return whole.hexdigest()


def main() -> int:
    """Look, or write down."""
    if sys.argv[1:] == ["--passed"]:
        PASSED.write_text(f"{digest()}\n")
        print(f"written to {PASSED.relative_to(ROOT)}: commit it")
        return 0
    unchanged = PASSED.exists() and PASSED.read_text().strip() == digest()
    print("nothing has changed that the long tests on a cluster guard" if unchanged else "changed since they passed")
    return 0 if unchanged else 1


if __name__ == "__main__":
    sys.exit(main())
