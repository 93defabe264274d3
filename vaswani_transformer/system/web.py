"""What the pages and services share: a socket to listen on, and whose browser may ask."""

import ipaddress
import socket
from urllib.parse import urlsplit


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any that is free.

    Raises:
        OSError: the port is taken, or the address is not this computer's; the message says what to do.
    """
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise OSError(f"Cannot listen on {host}, port {port} ({error.strerror}): give another --port.") from error


def address(host: str, listener: socket.socket) -> str:
    """What a browser on this computer opens."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def host_of(named: str) -> str:
    """The Host header without its port, "" where it is none."""
    try:
        return urlsplit(f"//{named}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
