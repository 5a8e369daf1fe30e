from .hook_names import HOOKS as HOOKS
from .hook_names import HookName as HookName
from .messages import CommissionerMessage as CommissionerMessage
from .messages import HostMessage as HostMessage
from .messages import read_commissioner_message as read_commissioner_message
from .messages import read_host_message as read_host_message
