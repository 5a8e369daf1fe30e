from .game_host import serve_rules as serve_rules
