from .finished_episode import FinishedEpisode as FinishedEpisode
from .role_record import RoleRecord as RoleRecord
