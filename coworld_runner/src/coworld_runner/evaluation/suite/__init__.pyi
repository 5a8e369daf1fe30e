from .suite_run import SuiteSettings as SuiteSettings
from .suite_run import play_suite as play_suite
from .suite_run import read_suite as read_suite
from .suite_run import read_suite_settings as read_suite_settings
