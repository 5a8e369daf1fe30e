from .atomic import write_whole as write_whole
from .compression import unpack as unpack
from .lfs_pointers import refuse_lfs_pointer as refuse_lfs_pointer
from .locks import flock as flock
from .locks import while_opening as while_opening
from .zips import BROKEN_ZIP as BROKEN_ZIP
from .zips import ZipWriter as ZipWriter
