from .records import READING as READING
