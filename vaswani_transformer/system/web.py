"""Shared parts of the servers: the socket that they listen on, and checks of the Host header."""

import errno
import ipaddress
import socket
from urllib.parse import unquote, urlsplit


def listening(host: str, port: int) -> socket.socket:
    """Returns a listening socket; port 0 picks a free one.

    Raises:
        OSError: the port is in use, or this computer does not have the address; the message says what to do.
    """
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        # Python passes on the number of a failed look-up, which is negative, but not its type.
        is_address = error.errno == errno.EADDRNOTAVAIL or (error.errno or 0) < 0
        option = "--host, an address of this computer" if is_address else "--port"
        raise OSError(f"Cannot listen on {host}, port {port} ({error.strerror}). Choose another {option}.") from error


def address(host: str, listener: socket.socket) -> str:
    """Returns the URL to open in a browser on this computer."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def split_origin(url: str) -> tuple[str, str]:
    """Splits "https://example.org/translate/" into its origin and its path, "https://example.org" and "/translate".

    Raises:
        ValueError: it is not an http or https URL, or has more than a host, a port and a path without "..".
    """
    refusal = ValueError(f"Not a website's address: {url}. Write it as https://translate.example.org")
    try:
        parts = urlsplit(url)
        number = parts.port
    except ValueError as error:
        raise refusal from error
    has_more = parts.username or parts.query or parts.fragment
    is_relative = {".", ".."} & set(unquote(parts.path).split("/"))  # a browser would resolve it
    if parts.scheme not in ("http", "https") or not parts.hostname or has_more or is_relative:
        raise refusal
    port = f":{number}" if number and number != {"http": 80, "https": 443}[parts.scheme] else ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}", parts.path.rstrip("/")


def host_name(header: str) -> str:
    """Returns the name in a Host header, without its port; "" if the header is invalid."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
