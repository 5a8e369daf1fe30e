from .game_catalogue import list_wrappable as list_wrappable
from .gymnasium import Gymnasium as Gymnasium
from .openspiel import OpenSpiel as OpenSpiel
from .pettingzoo import PettingZoo as PettingZoo
from .practice import Practised as Practised
from .textarena import TextArena as TextArena
from .wrapped_package import wrap_game as wrap_game
