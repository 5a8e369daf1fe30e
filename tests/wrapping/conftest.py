"""Games of other libraries are tested where the library is: `.ci/run` has a step with each, and the suite has none."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("pyspiel") else ["test_openspiel.py"]
