"""A page that shows the queues of a server; needs ``pip install 'ackq[web]'``."""

from ackq.web.application import application

__all__ = ["application"]
