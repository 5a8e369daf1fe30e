"""The resources of a platform's API, shared by client and server.

`Model.read(raw)` reads what a server sent and never fails because of a single field (see `odd`). A server builds
its answers with `Model(...)`, and a client its requests with `*Body`; both are strict. Names are imported on first
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from ._open_enums import ExperienceStatus as ExperienceStatus
    from ._open_enums import ImageStatus as ImageStatus
    from ._open_enums import LobbyStatus as LobbyStatus
    from ._open_enums import MembershipStatus as MembershipStatus
    from ._open_enums import PlaySessionStatus as PlaySessionStatus
    from ._open_enums import RequestStatus as RequestStatus
    from ._open_enums import RoundStatus as RoundStatus
    from ._open_enums import SubmissionStatus as SubmissionStatus
    from ._wire_models import Body as Body
    from ._wire_models import LongText as LongText
    from ._wire_models import Text as Text
    from ._wire_models import Time as Time
    from ._wire_models import Wire as Wire
    from ._wire_models import read_entries as read_entries
    from .changes import DOWNLOAD_CATEGORIES as DOWNLOAD_CATEGORIES
    from .changes import BatchState as BatchState
    from .changes import ChangeEntry as ChangeEntry
    from .changes import ChangePage as ChangePage
    from .changes import DownloadCategory as DownloadCategory
    from .changes import DownloadEntry as DownloadEntry
    from .changes import DownloadPage as DownloadPage
    from .changes import EpisodeProgress as EpisodeProgress
    from .changes import EpisodeView as EpisodeView
    from .changes import ProgressPage as ProgressPage
    from .coworlds import CertificationFailure as CertificationFailure
    from .coworlds import CertificationState as CertificationState
    from .coworlds import Coworld as Coworld
    from .coworlds import CoworldSummary as CoworldSummary
    from .coworlds import CoworldUploadBody as CoworldUploadBody
    from .coworlds import CoworldVisibility as CoworldVisibility
    from .coworlds import Image as Image
    from .coworlds import ImageCompleteBody as ImageCompleteBody
    from .coworlds import ImageUpload as ImageUpload
    from .coworlds import ImageUploadBody as ImageUploadBody
    from .coworlds import PatchCommissionerBody as PatchCommissionerBody
    from .coworlds import PushGrant as PushGrant
    from .coworlds import Secret as Secret
    from .coworlds import Visibility as Visibility
    from .coworlds import VisibilityBody as VisibilityBody
    from .episodes import ARTIFACT_TYPES as ARTIFACT_TYPES
    from .episodes import BUNDLE_PARTS as BUNDLE_PARTS
    from .episodes import AgentStats as AgentStats
    from .episodes import ArtifactType as ArtifactType
    from .episodes import BundlePart as BundlePart
    from .episodes import EpisodeErrorType as EpisodeErrorType
    from .episodes import EpisodePerson as EpisodePerson
    from .episodes import EpisodeRequest as EpisodeRequest
    from .episodes import EpisodeScore as EpisodeScore
    from .episodes import EpisodeStats as EpisodeStats
    from .episodes import Participant as Participant
    from .episodes import PlayerEvidence as PlayerEvidence
    from .episodes import PolicyStats as PolicyStats
    from .episodes import SeatFault as SeatFault
    from .experience import MAX_EPISODES as MAX_EPISODES
    from .experience import MAX_ROSTER as MAX_ROSTER
    from .experience import EpisodeBody as EpisodeBody
    from .experience import ExperienceBody as ExperienceBody
    from .experience import ExperienceDetail as ExperienceDetail
    from .experience import ExperienceRequest as ExperienceRequest
    from .experience import ExperienceTarget as ExperienceTarget
    from .experience import RosterEntry as RosterEntry
    from .experience import RosterPlayer as RosterPlayer
    from .hosted import HostedReplaySession as HostedReplaySession
    from .hosted import JoinedSession as JoinedSession
    from .hosted import PlayConfigBody as PlayConfigBody
    from .hosted import PlaySession as PlaySession
    from .hosted import PlaySessionBody as PlaySessionBody
    from .hosted import ReplaySessionBody as ReplaySessionBody
    from .hosted import SessionPlayer as SessionPlayer
    from .identity import OwnedPlayer as OwnedPlayer
    from .identity import Player as Player
    from .identity import PlayerBody as PlayerBody
    from .identity import PlayerLogin as PlayerLogin
    from .identity import SignInCodeBody as SignInCodeBody
    from .identity import SubjectType as SubjectType
    from .identity import Whoami as Whoami
    from .leagues import BlockSeed as BlockSeed
    from .leagues import CompetitionEvent as CompetitionEvent
    from .leagues import Division as Division
    from .leagues import DivisionDescription as DivisionDescription
    from .leagues import Game as Game
    from .leagues import LadderEntry as LadderEntry
    from .leagues import Leaderboard as Leaderboard
    from .leagues import LeaderboardEntry as LeaderboardEntry
    from .leagues import LeaderboardView as LeaderboardView
    from .leagues import League as League
    from .leagues import LeagueSeed as LeagueSeed
    from .leagues import LeagueSeedBody as LeagueSeedBody
    from .leagues import LeagueSeedChangeBody as LeagueSeedChangeBody
    from .leagues import Pool as Pool
    from .leagues import RecentRound as RecentRound
    from .leagues import Round as Round
    from .leagues import RoundDetail as RoundDetail
    from .leagues import RoundResult as RoundResult
    from .lobbies import Lobby as Lobby
    from .lobbies import LobbyBody as LobbyBody
    from .lobbies import LobbyPermissions as LobbyPermissions
    from .lobbies import LobbySeat as LobbySeat
    from .lobbies import LobbySeatBody as LobbySeatBody
    from .lobbies import LobbySeatChangeBody as LobbySeatChangeBody
    from .lobbies import LobbyStartBody as LobbyStartBody
    from .lobbies import SeatKind as SeatKind
    from .memberships import AutoChampion as AutoChampion
    from .memberships import Membership as Membership
    from .memberships import RetireBody as RetireBody
    from .memberships import Submission as Submission
    from .memberships import SubmissionBody as SubmissionBody
    from .memberships import SubmissionCreated as SubmissionCreated
    from .platform_ids import ID_PREFIXES as ID_PREFIXES
    from .platform_ids import check_id as check_id
    from .platform_ids import id_kind as id_kind
    from .platform_ids import is_image_id as is_image_id
    from .platform_ids import is_uuid as is_uuid
    from .platform_ids import same_coworld as same_coworld
    from .policies import MOST_PLAYER_BYTES as MOST_PLAYER_BYTES
    from .policies import PlayerFiles as PlayerFiles
    from .policies import Policy as Policy
    from .policies import PolicyFilesBody as PolicyFilesBody
    from .policies import PolicyRef as PolicyRef
    from .policies import PolicySecretEnvBody as PolicySecretEnvBody
    from .policies import PolicySecretEnvCreated as PolicySecretEnvCreated
    from .policies import PolicyVersion as PolicyVersion
    from .policies import PolicyVersionBody as PolicyVersionBody
    from .policies import PolicyVersionCreated as PolicyVersionCreated
    from .policies import PolicyVersionRow as PolicyVersionRow
    from .policies import SelectionAccess as SelectionAccess
    from .policies import SelectionAccessBody as SelectionAccessBody
    from .problems import Problem as Problem
    from .reporters import ReporterDetail as ReporterDetail
    from .reporters import ReporterEntry as ReporterEntry
    from .reporters import ReporterOutput as ReporterOutput
    from .reporters import ReporterOutputKind as ReporterOutputKind
    from .role_runs import HostedRole as HostedRole
    from .role_runs import RoleRun as RoleRun
    from .role_runs import RoleRunBody as RoleRunBody
    from .tags import LabelTags as LabelTags
    from .tags import TagChangesBody as TagChangesBody
    from .tags import Tagged as Tagged
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "._open_enums": (
                "ExperienceStatus",
                "ImageStatus",
                "LobbyStatus",
                "MembershipStatus",
                "PlaySessionStatus",
                "RequestStatus",
                "RoundStatus",
                "SubmissionStatus",
            ),
            "._wire_models": ("Body", "LongText", "Text", "Time", "Wire", "read_entries"),
            ".changes": (
                "DOWNLOAD_CATEGORIES",
                "BatchState",
                "ChangeEntry",
                "ChangePage",
                "DownloadCategory",
                "DownloadEntry",
                "DownloadPage",
                "EpisodeProgress",
                "EpisodeView",
                "ProgressPage",
            ),
            ".coworlds": (
                "CertificationFailure",
                "CertificationState",
                "Coworld",
                "CoworldSummary",
                "CoworldUploadBody",
                "CoworldVisibility",
                "Image",
                "ImageCompleteBody",
                "ImageUpload",
                "ImageUploadBody",
                "PatchCommissionerBody",
                "PushGrant",
                "Secret",
                "Visibility",
                "VisibilityBody",
            ),
            ".episodes": (
                "ARTIFACT_TYPES",
                "BUNDLE_PARTS",
                "AgentStats",
                "ArtifactType",
                "BundlePart",
                "EpisodeErrorType",
                "EpisodePerson",
                "EpisodeRequest",
                "EpisodeScore",
                "EpisodeStats",
                "Participant",
                "PlayerEvidence",
                "PolicyStats",
                "SeatFault",
            ),
            ".experience": (
                "MAX_EPISODES",
                "MAX_ROSTER",
                "EpisodeBody",
                "ExperienceBody",
                "ExperienceDetail",
                "ExperienceRequest",
                "ExperienceTarget",
                "RosterEntry",
                "RosterPlayer",
            ),
            ".hosted": (
                "HostedReplaySession",
                "JoinedSession",
                "PlayConfigBody",
                "PlaySession",
                "PlaySessionBody",
                "ReplaySessionBody",
                "SessionPlayer",
            ),
            ".identity": (
                "OwnedPlayer",
                "Player",
                "PlayerBody",
                "PlayerLogin",
                "SignInCodeBody",
                "SubjectType",
                "Whoami",
            ),
            ".platform_ids": ("ID_PREFIXES", "check_id", "id_kind", "is_image_id", "is_uuid", "same_coworld"),
            ".leagues": (
                "BlockSeed",
                "CompetitionEvent",
                "Division",
                "DivisionDescription",
                "Game",
                "LadderEntry",
                "Leaderboard",
                "LeaderboardEntry",
                "LeaderboardView",
                "League",
                "LeagueSeed",
                "LeagueSeedBody",
                "LeagueSeedChangeBody",
                "Pool",
                "RecentRound",
                "Round",
                "RoundDetail",
                "RoundResult",
            ),
            ".lobbies": (
                "Lobby",
                "LobbyBody",
                "LobbyPermissions",
                "LobbySeat",
                "LobbySeatBody",
                "LobbySeatChangeBody",
                "LobbyStartBody",
                "SeatKind",
            ),
            ".memberships": (
                "AutoChampion",
                "Membership",
                "RetireBody",
                "Submission",
                "SubmissionBody",
                "SubmissionCreated",
            ),
            ".policies": (
                "MOST_PLAYER_BYTES",
                "PlayerFiles",
                "Policy",
                "PolicyFilesBody",
                "PolicyRef",
                "PolicySecretEnvBody",
                "PolicySecretEnvCreated",
                "PolicyVersion",
                "PolicyVersionBody",
                "PolicyVersionCreated",
                "PolicyVersionRow",
                "SelectionAccess",
                "SelectionAccessBody",
            ),
            ".problems": ("Problem",),
            ".reporters": ("ReporterDetail", "ReporterEntry", "ReporterOutput", "ReporterOutputKind"),
            ".role_runs": (
                "HostedRole",
                "RoleRun",
                "RoleRunBody",
            ),
            ".tags": ("LabelTags", "TagChangesBody", "Tagged"),
        },
    )
