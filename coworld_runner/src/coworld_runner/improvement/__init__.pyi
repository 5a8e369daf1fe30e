from .improvement_loop import Improvement as Improvement
from .improvement_loop import improve_player as improve_player
from .improvement_loop import improvement_workspace as improvement_workspace
from .improvement_rules import ImprovementRules as ImprovementRules
