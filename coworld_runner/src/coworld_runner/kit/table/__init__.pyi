from .seat_events import SeatEvents as SeatEvents
