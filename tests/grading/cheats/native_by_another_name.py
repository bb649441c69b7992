"""Tries to load compiled modules that are refused under another name.

part: nsys-ex01a
"""
import importlib.machinery, importlib.util, os
def busy_intervals(*_):
    place = os.path.join(os.path.dirname(os.__file__), "lib-dynload")
    file = next(os.path.join(place, n) for n in os.listdir(place) if n.startswith("_posixshmem."))
    loader = importlib.machinery.ExtensionFileLoader("another._posixshmem", file)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("another._posixshmem", loader))
    loader.exec_module(module)
    os.write(module.shm_open("/labcode-left-98765", os.O_CREAT | os.O_RDWR, 0o600), b"left")
gpu_idle_share = longest_gaps = busy_intervals
