from .known_places import remember_place as remember_place
from .local_runs import LocalRuns as LocalRuns
from .run_export import ExportedTables as ExportedTables
from .run_query import QueryResult as QueryResult
