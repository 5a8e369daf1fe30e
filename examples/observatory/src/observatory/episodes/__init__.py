"""The evidence of an episode: access to it, its statistics, and links to its files.

Routes, pages and the worker use this package; it depends only on the store and on identities.
"""
