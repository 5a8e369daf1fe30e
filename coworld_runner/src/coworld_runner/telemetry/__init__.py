"""What runs tell to programs that watch many of them: metrics for Prometheus, traces for OpenTelemetry."""
