"""The manifest of a Coworld: its models, its rules, every generation of it, and the documents whose shape it defines.

Game configs and results are here because the manifest has their schemas. What an episode is, is not.
"""
