"""What a learner's file may do while it is graded: rules in; a process that keeps them out of accidents' way.

These guards are for honest mistakes: an endless list, a file written to the wrong place, a program that is
started and forgotten, a module that does the exercise. They hold against most tricks, too, but they live in
the process that they guard: `labcode.grading.jail` is what an instructor trusts.
"""

import builtins
import functools
import gc
import os
import pathlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any

MEMORY_BYTES = 4 << 30
FILE_BYTES = 256 << 20
CPU_S = 900
_DEEPEST = 64
# Nobody can change these tables: the answer reaches this module.
_STARTING = frozenset(
    ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "pty.spawn")
)
_TALKING = frozenset(
    f"socket.{what}" for what in ("connect", "bind", "sendto", "sendmsg", "getaddrinfo", "gethostbyname")
)
_PRYING = (
    *("gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames"),
    *("resource.setrlimit", "resource.prlimit", "os.killpg"),
    "cpython.PyInterpreterState_New",  # in which there are no guards
    "sys.addaudithook",  # it would be told what the guard does, in the midst of it
    "os.symlink",  # from elsewhere its words lead elsewhere
)
_MAKING = ("mknod", "mkfifo", "pidfd_open")
_RANKING = ("setpriority", "sched_setaffinity", "sched_setscheduler", "sched_setparam")  # of any process
_UNTOLD = {  # functions of which no hook is told
    "os": (*_MAKING, *_RANKING),
    "posix": (*_MAKING, *_RANKING),
    "signal": ("pidfd_send_signal",),
    "_signal": ("pidfd_send_signal",),
    "subprocess": ("_fork_exec",),
    "_posixsubprocess": ("fork_exec",),
    "_posixshmem": (),  # what it makes outlives the grading
    "_multiprocessing": ("SemLock",),
    "readline": (),  # it opens files itself
    "_tkinter": (),  # Tcl, too
    "_testcapi": (),
    "_testinternalcapi": (),
}
_SYSTEM = frozenset(("psutil", "zmq"))  # packages that call the system themselves
# By event: at which places of its arguments a path stands that is changed, and beside each the open folder.
_CHANGING = MappingProxyType(
    {
        "os.link": ((0, 2), (1, 3)),
        "os.rename": ((0, 2), (1, 3)),
        "os.remove": ((0, 1),),
        "os.rmdir": ((0, 1),),
        "os.mkdir": ((0, 2),),
        "os.chmod": ((0, 2),),
        "os.chown": ((0, 3),),
        "os.utime": ((0, 3),),
        "os.truncate": ((0, None),),
        "os.setxattr": ((0, None),),
        "os.removexattr": ((0, None),),
    }
)
Key = tuple[int, int]


@dataclass(frozen=True)
class Rules:
    """What may not be read, which modules may not be imported, and the one folder that may be written to."""

    shut: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    work: str = ""


def limit(*, memory: bool = True, processes: int = 0) -> None:
    """Bound what this process and its children take: memory, time of the CPU, the size of a file.

    ``processes`` counts those of the user; 0 leaves them alone.
    """
    try:
        import resource
    except ModuleNotFoundError:  # a system without them
        return
    bounds = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": FILE_BYTES, "RLIMIT_CPU": CPU_S}
    bounds |= {"RLIMIT_DATA": MEMORY_BYTES} if memory else {}
    bounds |= {"RLIMIT_NPROC": processes} if processes else {}
    for name, most in bounds.items():
        which = getattr(resource, name, None)
        if which is not None:
            _, hard = resource.getrlimit(which)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (most, most))


def put_up(rules: Rules) -> None:
    """Keep the rules from now on, in this process, for good."""
    for name in (name for name in rules.modules if name not in sys.modules):
        if "." not in name:
            sys.modules[name] = None  # type: ignore[assignment]
    for module, names in _UNTOLD.items():
        for name in names:
            if hasattr(sys.modules.get(module), name):
                setattr(sys.modules[module], name, _untold)

    # The trace of a refusal shows this frame: what it goes by is none of its function's variables.
    def refuse(
        event: str,
        arguments: tuple[Any, ...],
        judged: Callable[..., Any] = _hidden(_apart()["_judge"](rules)),  # noqa: B008
        collects: Callable[[], bool] = gc.isenabled,
        rest: Callable[[], None] = gc.disable,
        go_on: Callable[[], None] = gc.enable,
    ) -> None:
        collecting = collects()
        rest()  # what is called at a collection would see the frames of the guard
        refusal = judged(event, arguments)
        if collecting:
            go_on()
        if refusal is not None:
            raise refusal

    sys.addaudithook(refuse)


def _untold(*_: Any, **__: Any) -> None:
    raise PermissionError("an answer has no need of this function")


def _apart() -> dict[str, Any]:
    """The functions here, in a namespace of their own with builtins of its own: what a learner's file puts in
    their place changes nothing there.
    """
    space = {**globals(), "__builtins__": dict(vars(builtins))}
    for name, one in list(space.items()):
        if isinstance(one, FunctionType) and one.__module__ == __name__:
            space[name] = FunctionType(one.__code__, space, name, one.__defaults__)
    return space


def _hidden(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does the same, and from which one does not get to its variables."""
    wrapped = functools.lru_cache(maxsize=0)(function)
    vars(wrapped).clear()
    return wrapped


def _judge(rules: Rules) -> Callable[[str, tuple[Any, ...]], BaseException | None]:
    """What says of an event why it is refused, or None.

    It may be called by several threads, and while it runs by handlers of signals: so nothing is kept between
    two events. No method of what a learner's file made runs here, such as a text's of its own kind: a kind is
    looked at with ``type``, for `isinstance` asks the thing itself.
    """
    stat, names, own, fspath, separator = os.stat, os.listdir, os.getpid(), os.fspath, os.sep
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
    plain_paths = (pathlib.PosixPath, pathlib.WindowsPath)
    secret = frozenset(_keys(rules.shut))
    forbidden = tuple((name, name + ".") for name in rules.modules)
    away = frozenset(_keys(does_it(rules.modules)))
    system = _key(stat, "/proc/self/status")  # from there one reaches the grader
    work, nothing = _key(stat, rules.work), _key(stat, os.devnull)
    untold = frozenset(_UNTOLD)
    installed = {_key(stat, place) for place in (sys.prefix, sys.base_prefix, *sys.path)}

    def judged(event: str, arguments: tuple[Any, ...]) -> BaseException | None:
        try:
            look(event, arguments)
        except BaseException as refusal:
            return refusal.with_traceback(None)
        return None

    def exact(given: Any) -> str:
        """The text of a path or a name."""
        if any(type(given) is one for one in plain_paths):
            given = fspath(given)
        if issubclass(type(given), str):
            return str.encode(given, "utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
        if issubclass(type(given), bytes):
            return bytes.decode(given, "utf-8", "surrogateescape")
        raise PermissionError("an answer gives paths as texts, or those of pathlib")

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            if type(path) is int or path is None:
                return
            places = candidates(exact(path))
            keys = {_key(stat, place) for place in places}
            if keys & secret:
                raise PermissionError("the solutions are for afterwards")
            if system is not None and any(key is not None and key[0] == system[0] for key in keys):
                raise PermissionError(f"{exact(path)}: an answer has no need of other processes")
            if keys & away:
                raise ImportError("a file that does the exercise: write it yourself, this is the exercise")
            writes = type(flags) is int and flags & writing
            if writes or (type(mode) is str and set(mode) & set("wax+")):
                changes(places)
        elif event == "import":
            name = exact(arguments[0])
            # what is needed of these was there when the guard came
            if name in untold or name.partition(".")[0] in _SYSTEM:
                raise ImportError(f"an answer has no need of {name}")
            if any(name == one or name.startswith(below) for one, below in forbidden):
                raise ImportError(f"imports {name}: write it yourself, this is the exercise")
            if arguments[1] is not None:  # a compiled one
                library = exact(arguments[1])
                home = library.rpartition(separator)[0] or "."
                if name.rpartition(".")[2] in untold or _SYSTEM & {*home.split(separator)}:
                    raise ImportError(f"an answer has no need of {library}")
                if _inside(stat, home, work) or not any(_inside(stat, home, one) for one in installed):
                    raise ImportError(f"{library}: an answer brings no compiled library along")
        elif event in _CHANGING:
            for place, beside in _CHANGING[event]:
                path = arguments[place]
                if type(path) is int and event != "os.truncate":  # that one needs a file open for writing
                    raise PermissionError("an answer changes files by their names")
                if type(path) is not int:
                    folder = arguments[beside] if beside is not None and beside < len(arguments) else -1
                    changes(candidates(exact(path), folder))
        elif event in _STARTING:
            raise PermissionError("an answer starts no programs")
        elif event in _TALKING:
            raise PermissionError("an answer uses no network")
        elif event.startswith("ctypes.") or event in _PRYING:
            raise PermissionError(f"an answer has no need of {event}")
        elif event == "os.kill" and (type(arguments[0]) is not int or arguments[0] != own):
            raise PermissionError("an answer ends no other process")

    def candidates(path: str, folder: Any = -1) -> list[str]:
        """Where a path may lead: seen from here, and from every folder that is open."""
        if path.startswith(separator):
            return [path]
        if type(folder) is int and folder >= 0:
            return [f"/proc/self/fd/{folder}/{path}"]
        found = [path]
        try:
            opened = names("/proc/self/fd")
        except OSError:
            return found
        for number in opened:
            try:
                if stat(f"/proc/self/fd/{number}").st_mode & 0o170000 == 0o040000:
                    found.append(f"/proc/self/fd/{number}/{path}")
            except OSError:
                continue
        return found

    def changes(places: list[str]) -> None:
        for place in places:
            if _key(stat, place) == nothing:
                continue
            head, _, tail = place.rstrip(separator).rpartition(separator)
            folder = (head or separator) if head or place.startswith(separator) else "."
            if tail in ("..", ".") or not _inside(stat, folder, work):
                raise PermissionError(f"{place}: an answer writes to its working folder alone")

    return judged


def _inside(stat: Callable[[str], os.stat_result], folder: str, root: Key | None) -> bool:
    """Whether a folder lies below another, as the system goes up from it."""
    before = None
    for _ in range(_DEEPEST):
        key = _key(stat, folder)
        if key is None or key == before:
            return False
        if key == root:
            return True
        before, folder = key, folder + "/.."
    return False


def _key(stat: Callable[[str], os.stat_result], path: str) -> Key | None:
    """What tells a file from all others, whatever it is called; None where there is none."""
    try:
        found = stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _keys(places: Iterable[str]) -> set[Key]:
    """The files at and below some places."""
    found: set[Key | None] = set()
    for place in places:
        if not os.path.isdir(place):  # noqa: PTH112 - many, at each grading
            found.add(_key(os.stat, place))
            continue
        for folder, _, files in os.walk(place):
            found |= {_key(os.stat, f"{folder}/{name}") for name in files}
    return {key for key in found if key is not None}


def does_it(modules: Iterable[str]) -> list[str]:
    """The files of those modules of this lab that do an exercise, with what is compiled of them; the grader's
    own are no secret.
    """
    import labcode

    home = Path(labcode.__file__).parent.parent
    found: list[str] = []
    for name in modules:
        if not name.startswith(("labcode.analysis", "labcode.reports")):
            continue
        place = home.joinpath(*name.split("."))
        files = [*place.rglob("*.py")] if place.is_dir() else [place.with_suffix(".py")]
        for file in filter(Path.is_file, files):
            found += map(str, (file, *file.parent.glob(f"__pycache__/{file.stem}.*.pyc")))
    return found
