from .local_controller import LocalController as LocalController
