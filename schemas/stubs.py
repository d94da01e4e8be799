"""What old DeepSpeed releases miss in a current environment, put there before they are imported."""

from __future__ import annotations


def install() -> None:
    """Give numpy and torch the names that DeepSpeed before 0.14.4 imports from them."""
    import logging
    import socket

    import numpy

    if not hasattr(numpy, "BUFSIZE"):
        numpy.BUFSIZE = 8192
    try:
        import torch.distributed.elastic.agent.server.api as api
    except ImportError:
        return
    if not hasattr(api, "log"):
        api.log = logging.getLogger("torch.distributed.elastic.agent.server.api")
    if not hasattr(api, "_get_socket_with_port"):
        api._get_socket_with_port = lambda: socket.socket()
    if not hasattr(api, "_get_fq_hostname"):
        api._get_fq_hostname = lambda: "localhost"
