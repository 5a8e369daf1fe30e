"""The example that learns is tested where PyTorch is: `.ci/run` has a step with it, and the suite has none."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["test_learner.py"]
