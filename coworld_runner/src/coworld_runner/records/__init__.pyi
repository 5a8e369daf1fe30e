from .known_places import remember_directory as remember_directory
from .local_runs import LocalRuns as LocalRuns
from .run_export import ExportedTables as ExportedTables
from .run_query import QueryResult as QueryResult
