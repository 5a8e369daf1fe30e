"""Paint Arena, the sample Coworld: rules, game server, two players and the browser pages.

Importing the package imports nothing else, so that a player starts without the server's libraries and the
rules can be used alone, in a notebook or a search.
"""
