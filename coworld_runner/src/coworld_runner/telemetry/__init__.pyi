from .gateway_metrics import GatewayMetrics as GatewayMetrics
from .metrics_server import health_of as health_of
from .metrics_server import open_metrics as open_metrics
from .run_metrics import RunMetrics as RunMetrics
from .run_traces import RunTraces as RunTraces
from .trace_context import below as below
from .trace_context import current_traceparent as current_traceparent
