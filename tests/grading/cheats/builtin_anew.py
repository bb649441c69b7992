"""Tries to make a file in the lab with a function that the interpreter makes anew.

part: nsys-ex01a
"""
import importlib.machinery, os, labcode
ROOT = os.environ.get("LABCODE_HOME") or os.path.dirname(os.path.dirname(labcode.__file__))
import _imp
spec = importlib.machinery.ModuleSpec("posix", importlib.machinery.BuiltinImporter)
made = _imp.create_builtin(spec)
_imp.exec_builtin(made)
made.mknod(f"{ROOT}/labcode/sitecustomize.py", 0o100644)
