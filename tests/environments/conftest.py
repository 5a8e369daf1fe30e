"""Environments of other libraries are tested where these are: `.ci/run` has a step for each, and the suite has none."""

from importlib.util import find_spec

NEEDED = {
    "test_inspect.py": "inspect_ai",
    "test_openenv.py": "openenv",
    "test_ray.py": "ray",
    "test_verifiers.py": "verifiers",
}
collect_ignore = [file for file, module in NEEDED.items() if not find_spec(module)]
