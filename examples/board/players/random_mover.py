"""Makes random legal moves: an easy first opponent."""


def act(observation, legal, rng):
    """Make any legal move."""
    return rng.choice(legal)
