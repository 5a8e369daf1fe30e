from .episode_setup import init_config as init_config
from .worker_run import run_worker as run_worker
from .worker_settings import Outputs as Outputs
from .worker_settings import Settings as Settings
from .worker_settings import read_outputs as read_outputs
from .worker_settings import read_settings as read_settings
