"""A game as rules: which actions are legal, what they do, and who has won.

This package contains `Rules`, the play of one episode, schemas generated from types, replays and the audit. Apart from
the audit, which measures time, it uses no sockets, clocks, files or threads: the runner serves games, and the client
plays in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .audit import audit_rules as audit_rules
    from .game import Rules as Rules
    from .game import RulesConfig as RulesConfig
    from .game import load_rules as load_rules
    from .hidden_state import view_difference as view_difference
    from .pace import Pace as Pace
    from .pace import Ticks as Ticks
    from .pace import Turns as Turns
    from .play import Frame as Frame
    from .play import Play as Play
    from .player_loader import Act as Act
    from .player_loader import PlayerForm as PlayerForm
    from .player_loader import load_player as load_player
    from .replay import ReplayHeader as ReplayHeader
    from .replay import ReplayTick as ReplayTick
    from .replay import ReplayWriter as ReplayWriter
    from .replay import RulesReplay as RulesReplay
    from .replay import Trajectory as Trajectory
    from .replay import TrajectoryStep as TrajectoryStep
    from .replay import play_again as play_again
    from .replay import read_replay as read_replay
    from .replay import trajectory as trajectory
    from .replay_difference import ReplayDifference as ReplayDifference
    from .replay_difference import first_difference as first_difference
    from .rules_errors import ActionRefused as ActionRefused
    from .rules_errors import ReplayFormatError as ReplayFormatError
    from .rules_errors import RulesError as RulesError
    from .rules_schemas import EpisodeConfig as EpisodeConfig
    from .rules_schemas import action_schema as action_schema
    from .rules_schemas import config_schema as config_schema
    from .rules_schemas import game_section as game_section
    from .rules_schemas import read_config as read_config
    from .rules_schemas import results_schema as results_schema
    from .rules_schemas import rules_config as rules_config
    from .spectator_views import Delayed as Delayed
    from .spectator_views import Hidden as Hidden
    from .spectator_views import Open as Open
    from .spectator_views import Spectating as Spectating
    from .talk_limits import TalkLimits as TalkLimits
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".player_loader": ("Act", "PlayerForm", "load_player"),
            ".audit": ("audit_rules",),
            ".rules_errors": ("ActionRefused", "ReplayFormatError", "RulesError"),
            ".game": ("Rules", "RulesConfig", "load_rules"),
            ".hidden_state": ("view_difference",),
            ".pace": ("Pace", "Ticks", "Turns"),
            ".play": ("Frame", "Play"),
            ".replay": (
                "ReplayHeader",
                "ReplayTick",
                "ReplayWriter",
                "RulesReplay",
                "Trajectory",
                "TrajectoryStep",
                "play_again",
                "read_replay",
                "trajectory",
            ),
            ".replay_difference": ("ReplayDifference", "first_difference"),
            ".rules_schemas": (
                "EpisodeConfig",
                "action_schema",
                "config_schema",
                "game_section",
                "read_config",
                "results_schema",
                "rules_config",
            ),
            ".spectator_views": ("Delayed", "Hidden", "Open", "Spectating"),
            ".talk_limits": ("TalkLimits",),
        },
    )
