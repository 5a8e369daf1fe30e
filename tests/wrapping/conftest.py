"""Games of other libraries are tested where the library is: `.ci/run` has a step with each, and the suite has none."""

from importlib.util import find_spec

NEEDED = {
    "test_openspiel.py": "pyspiel",
    "test_pettingzoo.py": "pygame",
    "test_textarena.py": "textarena",
    "test_table_talk.py": "textarena",
    "test_cogs.py": "mettagrid",
}
collect_ignore = [file for file, module in NEEDED.items() if not find_spec(module)]
