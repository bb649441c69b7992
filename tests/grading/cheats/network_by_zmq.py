"""Tries to use the network by a package that calls the system itself.

part: nsys-ex01a
"""
from pathlib import Path
def busy_intervals(*_):
    import time, zmq
    socket = zmq.Context().socket(zmq.DEALER)
    socket.connect("tcp://127.0.0.1:" + Path(__file__).with_name("port.txt").read_text())
    socket.send(b"out")
    time.sleep(1)
gpu_idle_share = longest_gaps = busy_intervals
