from .connection import SeatError as SeatError
from .open_seat import OpenSeat as OpenSeat
from .seat_session import Act as Act
from .seat_session import load_player as load_player
from .seat_session import play_seat as play_seat
from .seat_session import seat_seed as seat_seed
from .seat_session import seat_url as seat_url
from .typed_seat import TypedSeat as TypedSeat
