"""The kit for people who write games and players: rules become a served game, a rollout, or a game under development.

`server` plays rules over the runtime contract, `rollout` plays them in this process, `wrappers` makes rules of
other libraries' games, `dev` runs a game and its players while they are written.
"""
