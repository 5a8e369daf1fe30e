"""What images are built from: compose files, Dockerfiles and build contexts; and building one image on an engine.

Backends, packages and builds stand on this room; it knows none of them.
"""
