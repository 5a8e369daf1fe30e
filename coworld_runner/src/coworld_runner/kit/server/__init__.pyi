from .game_host import serve_rules as serve_rules
from .new_programs import declaration_of as declaration_of
from .scaffolds import NewFiles as NewFiles
from .scaffolds import new_game as new_game
from .scaffolds import new_player as new_player
from .scaffolds import new_role as new_role
from .scaffolds import new_sample as new_sample
from .scaffolds import new_trainee as new_trainee
