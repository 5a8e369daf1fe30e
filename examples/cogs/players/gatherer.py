"""Digs for the ore that it sees, and carries it home in time."""

STEPS = {"north": (0, -1), "south": (0, 1), "west": (-1, 0), "east": (1, 0)}


class Player:
    """Remembers its last position and move to notice when it is stuck."""

    def __init__(self):
        self.before, self.asked = None, "stay"

    def act(self, observation, legal, rng):
        """Step toward the goal, or at random when stuck."""
        at = observation["at"]
        stuck = at == self.before and self.asked != "stay" and rng.random() < 0.7
        self.before = at
        self.asked = rng.choice(list(STEPS)) if stuck else self.toward(self.goal(observation), at, rng)
        return self.asked

    def goal(self, observation):
        """Return home if full or late, else the nearest visible mine, else home with ore and the other hub without."""
        (x, y), home, view = observation["at"], observation["home"], observation["view"]
        far = abs(home[0] - x) + abs(home[1] - y)
        late = observation["ore"] and observation["ticks_left"] < 2 * far + 5
        if observation["ore"] == 3 or late:
            return home
        middle = len(view) // 2
        mines = [
            (x + column - middle, y + row - middle)
            for row, line in enumerate(view)
            for column, letter in enumerate(line)
            if letter == "o"
        ]
        if mines:
            return min(mines, key=lambda mine: abs(mine[0] - x) + abs(mine[1] - y))
        return home if observation["ore"] else (25 - home[0], 14 - home[1])

    def toward(self, goal, at, rng):
        """Return a step toward the goal along the axis with the greater distance."""
        dx, dy = goal[0] - at[0], goal[1] - at[1]
        if abs(dx) > abs(dy) or (abs(dx) == abs(dy) and rng.random() < 0.5):
            return "east" if dx > 0 else "west"
        return "south" if dy > 0 else "north"
