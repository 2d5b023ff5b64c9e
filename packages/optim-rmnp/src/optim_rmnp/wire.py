"""Bytes that this process has sent over its TCP connections, as the kernel counts them (Linux)."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys

# struct tcp_info of linux/tcp.h: the 64-bit counts tcpi_bytes_sent and tcpi_bytes_retrans. The first includes the
# second, which between processes of one machine depends on nothing but its load.
_COUNTS, _COUNTS_OFFSET = struct.Struct("=QQ"), 200


def bytes_sent() -> int:
    """Bytes sent so far over all open TCP connections of this process, those sent again not counted.

    Returns
    -------
    int

    Raises
    ------
    OSError
        On systems other than Linux 4.19 or newer.
    """
    if not sys.platform.startswith("linux"):
        raise OSError("TCP byte counts are read from Linux's TCP_INFO")
    total = 0
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names alone
        with contextlib.suppress(OSError):  # no longer open, or not connected
            if not stat.S_ISSOCK(os.fstat(int(entry)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(entry))) as sock:
                if sock.type == socket.SOCK_STREAM and sock.family in (socket.AF_INET, socket.AF_INET6):
                    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                    if len(info) >= _COUNTS_OFFSET + _COUNTS.size:
                        sent, again = _COUNTS.unpack_from(info, _COUNTS_OFFSET)
                        total += sent - again
    return total
