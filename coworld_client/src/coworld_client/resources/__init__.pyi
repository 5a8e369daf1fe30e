from ._episode_places import replay_coworld as replay_coworld
from .policies import check_policy as check_policy
from .policies import model_environment as model_environment
