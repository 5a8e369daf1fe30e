from .episode_options import ContractProbe as ContractProbe
from .episode_options import EpisodeOptions as EpisodeOptions
from .run_options import BatchArguments as BatchArguments
from .run_options import EpisodeArguments as EpisodeArguments
from .run_options import RunArguments as RunArguments
from .single import require_images as require_images
from .single import run_episode as run_episode
