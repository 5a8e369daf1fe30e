"""Which players may play many episodes in one process, and that none of them finds anything of the last one there."""

from __future__ import annotations

import importlib
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coworld_runner.backends.process.child_environment import child_environment
from coworld_runner.kit.rollout.bot_links import BotProgram, PlayerHost
from coworld_runner.kit.rollout.bot_messages import ACT, NEW
from coworld_runner.kit.rollout.plain_players import SHARED, STATELESS, is_plain

EXAMPLES = Path(__file__).parents[2] / "examples"

# Whatever a file defines is new whenever it runs, so a player may do with that what it likes
OWN_THINGS = """
from collections import Counter, defaultdict

BY_KEY, LISTED, COUNTED = {}, [], Counter()

class Memory:
    def __init__(self):
        self.seen = Counter()

class Kept:
    games = []

    def remember(self):
        self.games.append(1)
        return len(self.games)

def by_default(seen=[], known={}):
    seen.append(1)
    known[len(known)] = 1
    return len(seen) + len(known)

def helper(table):
    table.setdefault("x", []).append(1)
    return len(table["x"])

MEMORY, KEPT = Memory(), Kept()

def act(observation, legal, rng):
    alias, local = LISTED, defaultdict(list)
    alias.append(1)
    BY_KEY[len(BY_KEY)] = 1
    COUNTED["x"] += 1
    MEMORY.seen.update("x")
    local["x"].append(1)
    sums = len(LISTED), len(BY_KEY), COUNTED["x"], MEMORY.seen["x"], len(local)
    return [*sums, KEPT.remember(), by_default(), helper(BY_KEY), helper(observation)]
"""

# These outlive the file
LASTING_THINGS = """
import copy
import random
import textwrap

def act(observation, legal, rng):
    kind = type(rng)
    kind.games = getattr(kind, "games", 0) + 1
    rng.__class__.more = len(getattr(random.Random, "more", ())) * [1] + [1]
    aliased = copy.dispatch_table
    aliased[len(aliased)] = 1
    copy.dispatch_table.setdefault("x", []).append(1)
    setattr(textwrap.wrap, "games", getattr(textwrap.wrap, "games", 0) + 1)
    table = textwrap.TextWrapper().unicode_whitespace_trans
    table[-len(table)] = 1
    added = sum(key < 0 for key in table)
    return [kind.games, len(kind.more), len(copy.dispatch_table["x"]), textwrap.wrap.games, added]
"""


@pytest.mark.parametrize(("source", "plain"), [(OWN_THINGS, True), (LASTING_THINGS, False)])
def test_episode_begins_with_nothing_left_from_the_last_one(tmp_path: Path, source: str, plain: bool) -> None:
    (tmp_path / "bot.py").write_text(source)
    program = BotProgram(name=str(tmp_path / "bot.py"), directory=tmp_path, env=child_environment(tmp_path))
    answers: list[Any] = []
    with closing(PlayerHost(program)) as host:
        assert host.description["plain"] is plain
        for episode in (1, 2):
            link = host.link()
            link.ask((NEW, episode, 7, None), NEW)
            link.ask((ACT, episode, {"left": 3}, None), ACT)
            assert link.send()
            found: list[Any] = []
            while len(found) < 2:
                received = link.receive()
                assert received is not None
                found += received
            link.asked.clear()
            if not plain:
                link.close()
            answers.append(found[1][2])
    assert answers[0] == answers[1]
    assert len(json.loads(answers[0])) > 4


@pytest.mark.parametrize(
    "source",
    [
        OWN_THINGS,
        "import random\ndef act(o, legal, rng):\n    return random.choice(legal)",
        "from functools import cache\n@cache\ndef best(n):\n    return n\nclass Player:\n    def act(self, o, l, r):\n"
        "        self.n = best(2)\n        return l[0]",
        "class Player:\n    def act(self, o, l, r):\n        self.seen.last = l\n        return l[0]",
        "class P:\n    c = {}\n    def act(self, o, l, r):\n        self.c[1] = P.c[2] = self.board[1][2] = 3",
        "import random\nMINE = random.Random(3)\ndef act(o, l, r: random.Random):\n    return MINE.choice(l)",
        "from collections.abc import Callable, Mapping\nfrom typing import Any, Literal\nMove = Literal['a']\n"
        "Board = Mapping[str, int]\ndef f(x: Any, y: Callable[[int], Any] | None = None) -> Mapping[str, Any]:\n"
        "    return isinstance(x, (Mapping, list))",
        "from fractions import Fraction as F\nx = max([F(1, 2), F.from_float(0.5)], key=lambda one: -one)",
        "import functools, math, operator, random\nfunctools.reduce(operator.add, map(math.sqrt, [1]))\n"
        "draw = random.choice\nmost = sorted([(math.inf,)], key=operator.itemgetter(0))",
        "import abc, enum\nclass M(enum.Enum):\n    A = 'a'\nclass B(metaclass=abc.ABCMeta):\n    __slots__ = ()\n"
        "    @abc.abstractmethod\n    def f(self): ...",
        "def f(x):\n    return type(x)(x) if type(x) is dict or x.__class__ == list else type(x).__name__",
        "import re\nP = re.compile('a', re.I | re.M)\ntry:\n    P.match('a')\nexcept (ValueError, re.error):\n    pass",
        "from dataclasses import dataclass, field\nfrom collections import Counter\n@dataclass(frozen=True)\nclass X:\n"
        "    seen: Counter[str] = field(default_factory=Counter)",
        "from __future__ import annotations\nimport json, time, typing as t\nnow = time.monotonic\n"
        "if t.TYPE_CHECKING or __name__ == '__main__':\n    json.loads('1', parse_float=float)",
    ],
)  # fmt: skip
def test_players_that_may_share_a_process(source: str) -> None:
    assert is_plain(source.encode())
    assert not is_plain(source.encode(), beside=["json"])


@pytest.mark.parametrize(
    "source",
    [
        LASTING_THINGS,
        "import os",
        "import numpy",
        "from . import x",
        "from json import nothing",
        "def act(",
        # Ends, seeds or runs what nobody has read
        "exec('import os')",
        "import random\nrandom.seed(1)",
        "from random import seed",
        "from contextlib import os",
        "import contextlib\ncontextlib.os.environ.update(a='1')",
        "import dataclasses\ndataclasses.sys.modules.update(x=1)",
        "from contextlib import redirect_stdout",
        "import operator\noperator.attrgetter('__class__')",
        "globals()['__builtins__']['len'] = 1",
        # Stores
        "import json\njson.dumps = None",
        "import json\nalias = json\nalias.games = 1",
        "import copy\ncopy._deepcopy_dispatch[int] = None",
        "import copy\ncopy.dispatch_table[int] = None",
        "import copy\nalias = copy\nalias.dispatch_table[int] = None",
        "import functools\nfunctools.WRAPPER_UPDATES[0] = None",
        "def act(o, legal, rng):\n    rng.games = 1",
        "def act(o, legal, rng):\n    type(rng).games = 1",
        "def act(o, legal, rng):\n    type(rng).games[1] = 1",
        "def act(o, legal, rng):\n    rng.__class__.games[1] = 1",
        "class P:\n    def act(self, o, l, rng):\n        self.__class__.games = 1",
        "class P:\n    def act(self, o, l, rng):\n        self.kind = type(rng)\n        self.kind.games = 1",
        "def act(o, legal, rng):\n    setattr(type(rng), 'games', 1)",
        "def act(o, legal, rng):\n    vars(type(rng))['games'] = 1",
        "import json\ngetattr(json, 'decoder')",
        # Methods that change something, and other names for it
        "import copy\ncopy.dispatch_table.update({1: 2})",
        "from copy import dispatch_table as mine\nmine.update({1: 2})",
        "from copy import _deepcopy_dispatch as mine\nmine.update({1: 2})",
        "import collections.abc\ncollections.abc.Sized.register(int)",
        "def act(o, legal, rng):\n    type(rng).games.append(1)",
        "def act(o, legal, rng):\n    cache = type(rng).cache\n    cache[1] = 2",
        "def act(o, legal, rng):\n    kind = type\n    kind(rng).games.append(1)",
        "def act(o, legal, rng, kind=type):\n    kind(rng).games.append(1)",
        "def act(o, legal, rng):\n    next(map(type, [rng])).games.append(1)",
        "def act(o, legal, rng):\n    match rng:\n        case object(__class__=kind): kind.games.append(1)",
        "import random\nKINDS = [random.Random]\nKINDS[0].games.append(1)",
        "import random\nclass P(random.Random):\n    pass\nP.mro()[1].games.append(1)",
        "import json\ndef f(self):\n    self.games = 1\nf(json.dumps)",
        "import functools, statistics\nclass P:\n    pass\nfunctools.update_wrapper(statistics.mean, P())",
        "def act(o, legal, rng):\n    copyright.games.append(1)",
        # Roads from an object to others
        "x = ().__class__.__bases__",
        "def f():\n    yield\nf().gi_frame.f_back",
    ],
)  # fmt: skip
def test_players_that_need_a_process_for_each_episode(source: str) -> None:
    assert not is_plain(source.encode())


@pytest.mark.parametrize("player", ["board/players/random_mover", "cogs/players/gatherer", "cogs/players/wanderer",
                                    "nim/players/counter", "nim/players/random_taker", "table-talk/players/agreeable",
                                    "table-talk/players/haggler"])  # fmt: skip
def test_players_of_the_examples_share_a_process(player: str) -> None:
    file = EXAMPLES / f"{player}.py"
    assert is_plain(file.read_bytes(), beside=[path.stem for path in file.parent.glob("*.py")])


@pytest.mark.filterwarnings("ignore:typing.(io|re) is deprecated:DeprecationWarning")
def test_no_class_of_a_stateless_module_hands_out_what_can_be_changed() -> None:
    for module in map(importlib.import_module, STATELESS):
        for name, kind in vars(module).items():
            if isinstance(kind, type) and kind.__module__.partition(".")[0] in STATELESS and name not in SHARED:
                held = {name: getattr(kind, name, None) for name in dir(kind) if not name.startswith("_")}
                assert not [name for name, value in held.items() if isinstance(value, dict | list | set)], kind
