"""Players of one's own: a file or a directory that becomes a player without an image having been made of it.

What it holds is read once, and from then on is what plays, whatever becomes of the file meanwhile. It is handed to a
unit as its inputs, beside the package's own player image; only a directory with a Dockerfile has an image of its own,
where a backend makes images. What a Python file is, its syntax tree says: nothing of it is imported here.
"""
