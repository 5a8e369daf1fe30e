"""What runs tell to programs that watch many of them: metrics for Prometheus, traces for OpenTelemetry."""

from coworld_core.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
