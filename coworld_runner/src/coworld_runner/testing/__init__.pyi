from .conformance import SUBJECT as SUBJECT
from .conformance import Arena as Arena
from .conformance import BackendConformance as BackendConformance
from .fake_backend import FakeBackend as FakeBackend
from .fake_backend import FakeContext as FakeContext
from .leaks import leak_check as leak_check
from .leaks import private_scratch as private_scratch
