from .improvement_loop import Improvement as Improvement
from .improvement_loop import improve_player as improve_player
from .improvement_rules import ImprovementRules as ImprovementRules
