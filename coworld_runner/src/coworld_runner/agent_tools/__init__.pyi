from .folder_limit import FolderLimit as FolderLimit
from .served_tools import open_http_tools as open_http_tools
from .served_tools import open_tools as open_tools
from .served_tools import serve_tools as serve_tools
