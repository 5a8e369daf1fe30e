from .event_bus import Listener as Listener
from .reaper import Sweep as Sweep
from .scratch import find_scratch as find_scratch
from .scratch import open_scratch as open_scratch
from .scratch import reap_scratch as reap_scratch
from .scratch import run_is_alive as run_is_alive
from .workspace import default_workspace as default_workspace
