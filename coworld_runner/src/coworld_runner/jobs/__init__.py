"""Episodes that pods of a cluster play, which take them from a store, and leave rows and evidence there.

The driver's side is a venue as any other. Nothing here schedules: a Job of the cluster has the pods, and a chunk is
played by whoever claims it first.
"""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
