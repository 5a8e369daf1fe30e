"""Two teams dig for ore and carry it home: a Coworld on a grid that mettagrid simulates."""

from collections import deque
from typing import Literal

from mettagrid.config.handler_config import FirstMatch, Handler, actorHasTag, deposit, withdraw
from mettagrid.config.mettagrid_c_config import convert_to_cpp_game_config, rename_map_agents
from mettagrid.config.mettagrid_config import (
    ActionsConfig,
    AgentConfig,
    ChangeVibeActionConfig,
    GameConfig,
    GridObjectConfig,
    InventoryConfig,
    MoveActionConfig,
    NoopActionConfig,
    ResourceLimitsConfig,
    WallConfig,
)
from mettagrid.config.obs_config import ObsConfig
from mettagrid.mettagrid_c import MettaGrid, PackedCoordinate
from pydantic import BaseModel, Field

from coworld_core import Rules, RulesConfig, Ticks

TEAMS = ("red", "blue")
WIDTH, HEIGHT, SIGHT = 26, 15, 11
LATE = 20
"""Delay in ticks with which spectators see the field, since players could be among them."""
CELLS = {"#": "wall", ".": "empty", "o": "mine", "R": "hub_red", "B": "hub_blue", "r": "agent.red", "b": "agent.blue"}
LETTERS = {
    "type:wall": "#",
    "type:mine": "o",
    "type:hub_red": "R",
    "type:hub_blue": "B",
    "team:red": "r",
    "team:blue": "b",
}
MOVES = ("stay", "north", "south", "west", "east")
"""All moves, in the order of their numbers in the simulation."""


class Cogs(Rules):
    """Two teams of four to eight dig for ore in the dark, carry it home, and steal it from each other.

    Seats 0, 2, 4 … are red, the others blue. A seat takes one ore by walking into a mine and carries three at most. It
    unloads all its ore by walking into its own hub, and steals one by walking into the other hub. A seat sees only the
    part of the field around it. The score of a seat is the ore in the hub of its team.
    """

    class Config(RulesConfig):
        """The length of the game, and the number of mines and walls."""

        ticks: int = Field(default=300, ge=1, le=10_000, description="Ticks to play.")
        mines: int = Field(default=8, ge=1, le=30, description="Mines on each side; each has four ore.")
        walls: int = Field(default=14, ge=0, le=40, description="Single walls on each side.")

    Action = Literal["stay", "north", "south", "west", "east"]

    class Observation(BaseModel):
        """What a seat sees."""

        tick: int
        ticks_left: int
        team: Literal["red", "blue"]
        at: tuple[int, int] = Field(description="The seat's column and row, counted from the north-west corner.")
        home: tuple[int, int] = Field(description="Column and row of the team's hub.")
        ore: int = Field(description="Ore that the seat carries, three at most.")
        view: list[str] = Field(
            description="Rows of the field around the seat (@): # wall, o mine, R and B hubs, r and b other seats."
        )

    class Results(BaseModel):
        """The ore in each team's hub."""

        red: int
        blue: int

    config: Config
    seats = 8
    most_seats = 16
    pace = Ticks(hz=10, hold=False)
    live_scores = True
    score_range = (0, 240)
    version = "mettagrid==0.26.22"

    def start(self) -> None:
        """Lay out the field, the same for both teams, and set up the simulation."""
        if self.seats % 2:
            raise ValueError(f"two teams need an even number of seats, not {self.seats}")
        game, field = _game(self.seats), self._map()
        config, renamed = convert_to_cpp_game_config(game)
        cells = rename_map_agents([[CELLS[cell] for cell in row] for row in field], renamed)
        # Use the simulation itself, because the library's `Simulation` wrapper reads clocks.
        self._sim = MettaGrid(config, cells, self.rng.getrandbits(31))
        ids = game.id_map()
        self._tags, self._feature = ids.tag_names(), ids.feature_id("tag")
        self._walls = [(x, y) for y, row in enumerate(field) for x, cell in enumerate(row) if cell == "#"]
        # The simulation numbers bodies in the order in which it finds them on the map.
        bodies = [one for one in self._sim.grid_objects(-1, -1, -1, -1, ["wall"]).values() if "agent_id" in one]
        of_team = {team: sorted(one["agent_id"] for one in bodies if one["group_name"] == team) for team in TEAMS}
        self._body = [of_team[TEAMS[seat % 2]][seat // 2] for seat in range(self.seats)]
        self.tick = 0
        self._look()
        self._past = deque([self._field()], maxlen=LATE + 1)

    def to_act(self) -> range:
        """All seats, until time is up."""
        return range(self.seats if self.tick < self.config.ticks else 0)

    def legal(self, seat: int) -> list[str]:
        """All moves; a move into an obstacle does nothing."""
        return list(MOVES)

    def default(self, seat: int) -> str:
        """A seat that sends nothing stays where it is."""
        return "stay"

    def observe(self, seat: int) -> Observation:
        """The part of the field around the seat."""
        middle = SIGHT // 2
        view = [["."] * SIGHT for _ in range(SIGHT)]
        for packed, feature, value in self._sim.observations()[self._body[seat]].tolist():
            place = PackedCoordinate.unpack(packed) if feature == self._feature else None
            if place is not None and (letter := LETTERS.get(self._tags[value])):
                view[place[0]][place[1]] = letter
        view[middle][middle] = "@"
        body, team = self._bodies[self._body[seat]], TEAMS[seat % 2]
        return self.Observation(
            tick=self.tick,
            ticks_left=self.config.ticks - self.tick,
            team=team,
            at=body["location"],
            home=self._hubs[team]["location"],
            ore=body["inventory"].get(0, 0),
            view=["".join(row) for row in view],
        )

    def step(self, actions: dict[int, str]) -> None:
        """Move all seats; if two want the same place, the order of their moves is random."""
        for seat, action in actions.items():
            self._sim.actions()[self._body[seat]] = MOVES.index(action)
        self._sim.step()
        self.tick += 1
        self._look()
        self._past.append(self._field())

    def scores(self) -> list[float]:
        """The ore in the hub of each seat's team."""
        return [float(self._stock(TEAMS[seat % 2])) for seat in range(self.seats)]

    def results(self) -> Results:
        """The ore in each team's hub."""
        return self.Results(red=self._stock("red"), blue=self._stock("blue"))

    def draw(self) -> str:
        """The field, delayed by `LATE` ticks until the game is over."""
        return self._past[0] if self.to_act() else self._past[-1]

    def text(self, seat: int) -> str:
        """The seat's view, position and load as text."""
        seen = self.observe(seat)
        rows = "\n".join(seen.view)
        return f"{rows}\nYou are {seen.team}, at {seen.at}, home at {seen.home}, with {seen.ore} ore."

    def _map(self) -> list[str]:
        """A field walled in, with a hub left and right; each half is the other rotated by 180 degrees."""
        rows = [
            ["#" if x in (0, WIDTH - 1) or y in (0, HEIGHT - 1) else "." for x in range(WIDTH)] for y in range(HEIGHT)
        ]

        def put(x: int, y: int, left: str, right: str) -> None:
            rows[y][x], rows[HEIGHT - 1 - y][WIDTH - 1 - x] = left, right

        put(2, HEIGHT // 2, "R", "B")
        for number in range(self.seats // 2):
            put(4 + number % 2, HEIGHT // 2 - 2 + number // 2, "r", "b")
        free = [(x, y) for x in range(7, WIDTH // 2) for y in range(1, HEIGHT - 1)]
        self.rng.shuffle(free)
        for number, (x, y) in enumerate(free[: self.config.mines + self.config.walls]):
            put(x, y, *("oo" if number < self.config.mines else "##"))
        return ["".join(row) for row in rows]

    def _look(self) -> None:
        self._things = list(self._sim.grid_objects(-1, -1, -1, -1, ["wall"]).values())
        self._hubs = {team: next(one for one in self._things if one["type_name"] == f"hub_{team}") for team in TEAMS}
        self._bodies = {one["agent_id"]: one for one in self._things if "agent_id" in one}

    def _stock(self, team: str) -> int:
        return self._hubs[team]["inventory"].get(0, 0)

    def _field(self) -> str:
        rows = [[" "] * WIDTH for _ in range(HEIGHT)]
        for x, y in self._walls:
            rows[y][x] = "#"
        for one in self._things:
            x, y = one["location"]
            kind = f"team:{one['group_name']}" if "agent_id" in one else f"type:{one['type_name']}"
            rows[y][x] = LETTERS[kind]
        lines = "\n".join("".join(row) for row in rows)
        return f"{lines}\nred {self._stock('red')}, blue {self._stock('blue')}, tick {self.tick}"


def _game(seats: int) -> GameConfig:
    """Define the objects, and what happens when a seat walks into them."""
    pockets = InventoryConfig(limits={"ore": ResourceLimitsConfig(base=3, max=3, resources=["ore"])})
    return GameConfig(
        resource_names=["ore"],
        num_agents=seats,
        max_steps=0,
        agents=[
            AgentConfig(map_name=f"agent.{team}", team_id=number, tags=[f"team:{team}"], inventory=pockets)
            for number, team in enumerate(TEAMS)
            for _ in range(seats // 2)
        ],
        actions=ActionsConfig(
            noop=NoopActionConfig(), move=MoveActionConfig(), change_vibe=ChangeVibeActionConfig(enabled=False)
        ),
        obs=ObsConfig(width=SIGHT, height=SIGHT),
        objects={
            "wall": WallConfig(),
            "mine": GridObjectConfig(
                name="mine",
                inventory=InventoryConfig(initial={"ore": 4}),
                on_use_handler=Handler(mutations=[withdraw({"ore": 1}, remove_when_empty=True)]),
            ),
            **{f"hub_{team}": _hub(team) for team in TEAMS},
        },
    )


def _hub(team: str) -> GridObjectConfig:
    """Define a hub, where its own team unloads all ore and any other seat takes one ore."""
    own = Handler(filters=[actorHasTag(f"team:{team}")], mutations=[deposit({"ore": -1})])
    return GridObjectConfig(
        name=f"hub_{team}", on_use_handler=FirstMatch(handlers=[own, Handler(mutations=[withdraw({"ore": 1})])])
    )
