from .attended_run import attend_run as attend_run
from .job_pods import JobPods as JobPods
from .job_venue import Detached as Detached
from .job_venue import JobVenue as JobVenue
from .pulled_run import pull_run as pull_run
from .stored_runs import StoredRuns as StoredRuns
