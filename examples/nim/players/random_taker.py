"""Takes whatever: the first opponent."""


def act(observation, legal, rng):
    """Takes any legal number of sticks."""
    return rng.choice(legal)
