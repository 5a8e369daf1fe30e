from .phrases import closest as closest
from .phrases import listed as listed
from .phrases import plural as plural
from .size_text import shown_size as shown_size
from .terminal import ESCAPES as ESCAPES
from .terminal import pasteable as pasteable
from .terminal import strip_controls as strip_controls
from .terminal import writable as writable
