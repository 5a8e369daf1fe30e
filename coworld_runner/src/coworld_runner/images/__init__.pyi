from .compose import find_compose as find_compose
from .compose import load_compose as load_compose
