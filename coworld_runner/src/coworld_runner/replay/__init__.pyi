from .replay_file import find_replay as find_replay
from .replay_file import last_of as last_of
from .replay_file import resolve_replay as resolve_replay
from .replay_session import ReplayOptions as ReplayOptions
from .shown_replay import ShownReplay as ShownReplay
