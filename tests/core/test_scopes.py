"""Files of games and players have imports of their own, and loading them changes nothing for others."""

from __future__ import annotations

import io
import json
import pickle
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from coworld_core.rules import RulesError, load_player, load_rules
from coworld_core.rules.acting import open_player
from coworld_core.rules.errors import own_lines
from coworld_core.scopes import close_scope, load_file

SCOPES = "coworld_core.scopes."


def written(directory: Path, **files: str) -> Path:
    """Write Python files, `a__b` into `a/b.py`, and return the path of the last one."""
    path = directory
    for name, text in files.items():
        path = directory / f"{name.replace('__', '/', 1)}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return path


def act(path: Path) -> Any:
    return load_player(str(path))(None, None, random.Random(1))


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    """Every test leaves the process as it was."""
    path, argv, modules = list(sys.path), sys.argv, dict(sys.modules)
    yield
    assert sys.path == path
    assert sys.argv is argv
    new = [name for name in sys.modules if name not in modules]
    beside = [name for name in new if "pytest-of" in str(getattr(sys.modules[name], "__file__", "") or "")]
    assert [name for name in beside if not name.startswith(SCOPES)] == []
    assert {name for name in modules if sys.modules.get(name) is not modules[name]} == set()


@pytest.mark.parametrize(
    ("beside", "bot"),
    [
        ("helper", "import helper\ndef act(*_): return helper.NAME"),
        ("helper", "from helper import NAME\ndef act(*_): return NAME"),
        ("helper", "from helper import *\ndef act(*_): return NAME"),
        ("helper", "def act(*_):\n    import helper\n    return helper.NAME"),
        ("helper", "import importlib\ndef act(*_): return importlib.import_module('helper').NAME"),
        ("helper", "from importlib import import_module\ndef act(*_): return import_module('helper').NAME"),
        ("helper", "def act(*_):\n    scope = {}\n    exec('import helper', scope)\n    return scope['helper'].NAME"),
        ("space__helper", "import space.helper\ndef act(*_): return space.helper.NAME"),
        ("space__helper", "import space.helper as it\ndef act(*_): return it.NAME"),
        ("space__helper", "def act(*_):\n    from space import helper\n    return helper.NAME"),
        ("json__helper", "import json\ndef act(*_): return json.loads('[\"%s\"]' % __file__.split('/')[-2])[0]"),
        ("random", "import random\ndef act(*_): return random.NAME"),
        ("numpy", "def act(*_):\n    import numpy\n    return numpy.NAME"),
        ("lib__tools", "import os, sys\nsys.path.append(os.path.dirname(__file__) + '/lib')\nfrom tools import NAME\n"
         "def act(*_): return NAME"),
        ("lib__tools", "import os, sys\ndef act(*_):\n    sys.path = [os.path.dirname(__file__) + '/lib', *sys.path]\n"
         "    import tools\n    return tools.NAME"),
        ("bot2", "import sys\ndef act(*_): import bot; return bot is sys.modules[__name__] and "
         "__file__.split('/')[-2]"),
    ],
)  # fmt: skip
def test_each_bot_imports_what_lies_beside_it(tmp_path: Path, beside: str, bot: str) -> None:
    names = ("one", "two")
    players = [load_player(str(written(tmp_path / name, **{beside: f"NAME = {name!r}", "bot": bot}))) for name in names]
    assert [player(None, None, None) for player in players] == list(names)
    assert random.Random(3).random() == random.Random(3).random(), "the standard library is as it was for others"


def test_packages_import_relatively_and_files_beside_the_bot_do_not(tmp_path: Path) -> None:
    kit = {"kit____init__": "from .deep import VALUE\nfrom . import deep", "kit__deep": "import other\nVALUE = other.V"}
    assert act(written(tmp_path, **kit, other="V = 4", bot="import kit\ndef act(*_): return kit.deep.VALUE")) == 4
    for inside, says in (("from .helper import x", "no known parent"), ("import kit.up", "beyond top-level package")):
        bot = written(tmp_path, helper="x = 1", kit__up="from .. import helper", wrong=inside)
        with pytest.raises(ImportError, match=says):
            load_file(bot)


def test_two_copies_share_nothing_and_a_game_is_each_its_own(tmp_path: Path) -> None:
    counting = "import helper\ndef act(*_):\n    helper.COUNT += 1\n    return helper.COUNT"
    path = written(tmp_path, helper="COUNT = 0", bot=counting)
    one, two = (load_player(str(path)) for _ in range(2))
    assert [one(), one(), two()] == [1, 2, 1]
    game = """
        import helper
        from coworld_core.rules import Rules
        class Game(Rules):
            helper = helper
            start = to_act = observe = step = scores = Rules.default
    """
    rules = load_rules(f"{written(tmp_path, game=game)}:Game")
    for name in ("from game import Game", "from coworld_core.rules import load_rules\nGame = load_rules('game:Game')"):
        seen = load_player(str(written(tmp_path, player=f"{name}\ndef act(*_): return Game")))()
        assert seen is not rules
        assert (seen.__name__, seen.helper.COUNT) == ("Game", 0)
        assert vars(rules)["helper"] is not seen.helper
    assert load_rules("game:Game", directory=tmp_path).__name__ == "Game"


def test_data_beside_the_bot_and_names_that_are_no_identifiers(tmp_path: Path) -> None:
    (tmp_path / "weights.json").write_text("[5]")
    reads = "import pathlib\ndef act(*_): return pathlib.Path(__file__).with_name('weights.json').read_text()"
    bot = written(tmp_path, bot=reads)
    for name in ("my-bot.v2.py", "ünder.py", "100%~1-2.py"):
        assert act(bot.rename(tmp_path / name)) == "[5]"
        bot = tmp_path / name


def test_dataclasses_models_and_annotations_find_their_modules(tmp_path: Path) -> None:
    helper = """
        from __future__ import annotations
        from dataclasses import dataclass
        from typing import ClassVar, get_type_hints
        from pydantic import BaseModel
        @dataclass
        class Point:
            size: ClassVar[int] = 2
            x: int = 1
        class Late(BaseModel):
            points: list[Later]
        class Later(BaseModel):
            x: int
    """
    bot = """
        from helper import *
        def act(*_):
            return Point(3).x, get_type_hints(Point)["x"], Late(points=[{"x": 3}]).points[0].x
    """
    assert act(written(tmp_path, helper=helper, bot=bot)) == (3, int, 3)


def test_the_file_is_all_of_the_command_line(tmp_path: Path) -> None:
    bot = """
        import argparse, sys
        parser = argparse.ArgumentParser()
        parser.add_argument("--depth", type=int, default=3)
        depth = parser.parse_args().depth
        def act(*_):
            return depth, sys.argv, parser.prog
    """
    path = written(tmp_path, bot=bot)
    nested = written(
        tmp_path,
        outer="from coworld_core.rules import load_player\n"
        f"inner = load_player({str(path)!r})()\nimport sys\nnow = list(sys.argv)\ndef act(*_): return inner, now",
    )
    assert act(path) == (3, [str(path)], "bot.py")
    assert act(nested) == ((3, [str(path)], "bot.py"), [str(nested)])


def test_errors_have_the_authors_names_files_and_lines(tmp_path: Path) -> None:
    for text, says in (
        ("import helper.none", r"^No module named 'helper.none'; 'helper' is not a package$"),
        ("import nowhere_at_all", r"^No module named 'nowhere_at_all'$"),
        ("from helper import y", r"^cannot import name 'y' from 'helper' \("),
    ):
        before = set(sys.modules)
        with pytest.raises(ImportError, match=says):
            load_file(written(tmp_path, helper="x = 1", bot=text))
        assert {name for name in set(sys.modules) - before if name.startswith(SCOPES)} == set()
    path = written(tmp_path, broken="x = 1\n\n1 / 0", bot="def act(*_):\n    # Later.\n    import broken")
    with pytest.raises(ZeroDivisionError) as failed:
        act(path)
    lines = [line for line in own_lines(failed.value) if __file__ not in line]
    assert [line.splitlines()[0] for line in lines] == [
        f'  File "{path}", line 3, in act',
        f'  File "{tmp_path}/broken.py", line 3, in <module>',
    ]
    with pytest.raises(AttributeError) as lacks:
        act(written(tmp_path, helper="", bot="import helper\ndef act(*_): return helper.x"))
    assert str(RulesError.raised(lacks.value, where="step", tick=1)).endswith("module 'helper' has no attribute 'x'")


def test_modules_are_forgotten_with_their_player(tmp_path: Path) -> None:
    path = written(tmp_path, helper="x = 1", bot="import helper\ndef act(*_): return helper.x")
    before = set(sys.modules)
    with open_player(str(path)) as player:
        assert len(set(sys.modules) - before) == 3
    assert set(sys.modules) == before
    assert player() == 1
    module = load_file(path)
    close_scope(module)
    assert set(sys.modules) == before


def test_scope_classes_can_be_pickled(tmp_path: Path) -> None:
    path = written(
        tmp_path, helper="class Kept:\n    x = 7", bot="import helper, sys\ndef act(*_): return helper.Kept().x"
    )
    module: Any = load_file(path)
    letter = pickle.dumps((module.act, module.helper.Kept(), module.sys))
    one, two, views = pickle.loads(letter)
    assert (one, type(two), views) == (module.act, module.helper.Kept, sys)
    code = "import pickle, sys\nact, kept, _ = pickle.load(sys.stdin.buffer)\n"
    code += "print(act(), kept.x, 'helper' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], input=letter, capture_output=True, check=True)
    assert done.stdout.decode().split() == ["7", "7", "False"]


def test_threads_load_and_play_at_once(tmp_path: Path) -> None:
    bot = """
        import argparse, helper
        argparse.ArgumentParser().parse_args()
        def act(*_):
            import late
            return helper.NAME + late.NAME
    """
    paths = [written(tmp_path / str(n), helper=f"NAME = '{n}'", late=f"NAME = '-{n}'", bot=bot) for n in range(4)] * 10
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(act, paths)) == [f"{path.parent.name}-{path.parent.name}" for path in paths]


def test_a_module_that_sets_what_is_global_sets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    path = written(tmp_path, bot="import io, sys\ndef act(*_):\n    sys.stdout = io.StringIO('mine')")
    act(path)
    assert cast("io.StringIO", sys.stdout).getvalue() == "mine"
    assert json.dumps(sys.maxsize) == str(sys.maxsize)
