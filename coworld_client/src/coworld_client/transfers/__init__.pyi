from .collection import INDEX_NAME as INDEX_NAME
from .collection import EvidenceKind as EvidenceKind
from .collection import collect_bundles as collect_bundles
from .collection import collect_evidence as collect_evidence
from .collection import collect_replays as collect_replays
from .collection import new_directory as new_directory
from .collection import replay_entry as replay_entry
from .files import OnProgress as OnProgress
