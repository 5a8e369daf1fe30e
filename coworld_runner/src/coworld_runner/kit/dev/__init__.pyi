from .dev_session import Dev as Dev
from .dev_session import open_dev as open_dev
from .file_watch import follow_log as follow_log
from .local_programs import read_scores as read_scores
from .local_server import Served as Served
from .local_server import open_served as open_served
from .seat_player import open_seat as open_seat
from .seat_player import socket_address as socket_address
