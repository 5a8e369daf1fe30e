"""Tools for testing backends and the code that runs on them.

`BackendConformance` is the contract of `coworld_runner.backend` as a pytest class: subclass it to test your own
backend. `FakeBackend` runs programs inside this process. `leaks` fails tests that leave something behind.
`subject` is the program that the checks run.
"""

import sys

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)

if "pytest" in sys.modules:
    # Makes failed assertions in the checks show their values, as in test files
    _parts = ("kit", "making", "output", "sharing", "stopping")
    sys.modules["pytest"].register_assert_rewrite(
        f"{__name__}.leaks", *(f"{__name__}._conformance_{part}" for part in _parts)
    )
