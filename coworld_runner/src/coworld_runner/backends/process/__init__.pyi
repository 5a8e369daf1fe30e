from .process_backend import ProcessBackend as ProcessBackend
