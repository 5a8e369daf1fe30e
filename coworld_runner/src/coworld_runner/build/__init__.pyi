from .manifest_build import BuildResult as BuildResult
from .manifest_build import build_coworld as build_coworld
