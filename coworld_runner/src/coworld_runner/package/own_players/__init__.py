"""The user's own players: files or directories that play without an image being built for them.

The content is read once, so later changes to the files do not affect what plays. A unit receives it as its inputs and
runs it in the package's own player image. Only a directory with a Dockerfile gets an image of its own, on a backend
that builds images. A Python file is classified by its syntax tree; nothing in it is imported here.
"""
