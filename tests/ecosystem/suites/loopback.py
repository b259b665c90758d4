"""Run a command with no network but loopback: `unshare --net python loopback.py COMMAND ...`.

A new network namespace has a loopback interface that is down; this switches it on (netdevice(7)).
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1  # linux/sockios.h, linux/if.h

with socket.socket() as _any:
    _request = struct.pack("16sH14x", b"lo", 0)
    (_flags,) = struct.unpack_from("16xH", fcntl.ioctl(_any, _SIOCGIFFLAGS, _request))
    fcntl.ioctl(_any, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _flags | _IFF_UP))
os.execv(sys.argv[1], sys.argv[1:])
