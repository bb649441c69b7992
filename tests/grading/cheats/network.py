"""Tries to send what it has seen to another machine."""

# part: nsys-ex04b
import os
import socket

port = int(open(os.path.join(os.path.dirname(__file__), "port.txt")).read())
socket.create_connection(("127.0.0.1", port), timeout=2).sendall(b"here")
