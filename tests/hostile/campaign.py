"""Which commands are tried on which formats; a number of cases for each pair in, faults out.

python -m tests.hostile                 all of them, 3,000 and more
python -m tests.hostile nsys:stats      those whose name begins so
python -m tests.hostile nsys:stats/17   one, with what it printed
"""

from __future__ import annotations

import random
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.hostile import around, formats, odd
from tests.hostile.judge import Asked, Ended, run
from tests.hostile.values import NUMBERS, TEXTS

Make = Callable[[random.Random, Path], Asked]
CHEAP, DEAR = 100, 40  # cases of a pair in the whole campaign


@dataclass(frozen=True)
class Pair:
    """A format and a command: how its cases are made, and how many there are."""

    name: str
    make: Make
    count: int

    def case(self, number: int) -> Ended:
        """Run and judge one case."""
        rng = random.Random(zlib.crc32(f"{self.name}/{number}".encode()))
        terminal = rng.random() < 0.5
        return run(lambda folder: self.make(rng, folder), terminal=terminal)


def _reads(generate: Callable[[random.Random, Path], Path], *words: str, **options: object) -> Make:
    """A command on a file; ``{a}|{b}`` in a word is one of those."""

    def make(rng: random.Random, folder: Path) -> Asked:
        path = str(generate(rng, folder / "in"))
        chosen = [rng.choice(word.split("||")).replace("FILE", path) for word in words]
        said = [word.replace("{", "{{").replace("}", "}}").replace("OUT", "{out}") for word in chosen if word]
        return Asked(
            said,
            markdown="md" in said,
            document="json" in said and not any("{out}" in word for word in said),
            **options,  # type: ignore[arg-type]
        )

    return make


def _two(generate: Callable[[random.Random, Path], Path], *words: str) -> Make:
    """A command on two files of a format."""

    def make(rng: random.Random, folder: Path) -> Asked:
        files = []
        for part in ("a", "b"):
            (folder / "in" / part).mkdir()
            files.append(str(generate(rng, folder / "in" / part)))
        chosen = [rng.choice(word.split("||")) for word in words]
        said = [word.replace("FIRST", files[0]).replace("SECOND", files[1]) for word in chosen if word]
        said = [word.replace("{", "{{").replace("}", "}}").replace("OUT", "{out}") for word in said]
        return Asked(said, markdown="md" in said, document="json" in said)

    return make


def _pairs() -> Iterator[Pair]:
    shown = ("-f", "table||csv||json||md")
    for name, generate in (
        ("nsys", formats.nsys),
        ("kineto", formats.kineto),
        ("perfetto", formats.pftrace),
        ("memory", formats.memory),
        ("power", formats.power_log),
        ("ncu", formats.ncu),
        ("ranks", formats.rank_folder),
        ("other", formats.other),
    ):
        count = DEAR if name in ("ncu", "ranks") else CHEAP
        here = ("--scheduler", "here") if name == "ranks" else ("", "")
        yield Pair(f"{name}:stats", _reads(generate, "stats", "FILE", "--all", *shown, *here), count)
        yield Pair(
            f"{name}:write",
            _reads(generate, "stats", "FILE", "--all", *shown, "-o", "OUT", *here),
            count // 2,
        )
        yield Pair(
            f"{name}:diagnose", _reads(generate, "diagnose", "FILE", "-f", "table||json||md", *here), count
        )
        yield Pair(f"{name}:report", _reads(generate, "report", "FILE", "-f", "md||json"), count // 2)
        yield Pair(
            f"{name}:page",
            _reads(generate, "report", "FILE", "-o", "OUT/a.html||OUT/a.md||OUT/a.json"),
            count // 2,
        )
        yield Pair(
            f"{name}:timeline",
            _reads(
                generate,
                "timeline",
                "FILE",
                "-o",
                "OUT/a.svg||OUT/a.html||OUT/a.json.gz||OUT/a.pftrace",
                *here,
            ),
            count // 2,
        )
        yield Pair(f"{name}:scrub", _reads(generate, "scrub", "FILE", "||-oOUT/a", "--review"), count // 2)
        yield Pair(f"{name}:compare", _two(generate, "compare", "FIRST", "SECOND", *shown, *here), count // 2)
    for name, generate in (
        ("nsys", formats.nsys),
        ("kineto", formats.kineto),
        ("perfetto", formats.pftrace),
        ("other", formats.other),
    ):
        yield Pair(
            f"{name}:flame",
            _reads(
                generate,
                "flame",
                "FILE",
                "-o",
                "OUT/a.svg||OUT/a.html||OUT/a.json||OUT/a.txt",
                "--of=python||--of=cpu||--of=launches||--of=modules",
            ),
            DEAR,
        )
        yield Pair(
            f"{name}:export",
            _reads(generate, "export", "FILE", "-o", "OUT", "-f", "csv||parquet||sqlite||pftrace"),
            DEAR,
        )
        yield Pair(f"{name}:list", _reads(generate, "stats", "--list", "FILE"), DEAR)
    for name in ("ncu", "other"):
        generate = formats.ncu if name == "ncu" else formats.other
        yield Pair(
            f"{name}:roofline", _reads(generate, "roofline", "FILE", "-o", "OUT/a.svg||OUT/a.png"), DEAR
        )
    yield Pair("words:windows", _windows, DEAR)
    yield Pair("words:options", _options, CHEAP)
    yield Pair("words:rules", _rules, DEAR)
    yield Pair("grades:merge", _reads(formats.grades, "grades", "FILE", *shown), CHEAP)
    yield Pair("sets:list", _set("captures", "list"), CHEAP)
    yield Pair("sets:verify", _set("captures", "verify"), CHEAP)
    yield Pair(
        "sets:compare", _set("captures", "compare", "mine", "h200", "-f", "table||csv||json||md"), DEAR
    )
    yield Pair("sets:capture", _set("capture", "--list", "--set", "mine"), DEAR)
    yield Pair("sets:pack", _set("captures", "pack", "mine", "--archive", "OUT/a.tar"), DEAR)
    yield Pair("sets:thin", _set("captures", "thin", "mine"), DEAR)
    yield Pair("sets:restamp", _set("captures", "restamp", "mine"), DEAR)
    yield Pair("archives:add", _archive, CHEAP)
    yield Pair("tools:doctor", _doctor, DEAR)
    yield Pair("tools:report", _no_nsys, DEAR)
    yield Pair("outputs:places", _places, CHEAP)
    yield Pair("outputs:full", _full, CHEAP)
    for name, make in ({**odd.KINDS, **around.KINDS}).items():
        yield Pair(f"odd:{name}", make, CHEAP)


def _windows(rng: random.Random, folder: Path) -> Asked:
    path = str(formats.make_random_export(folder / "in" / "run.sqlite", rng.randrange(1 << 30)))
    odd = (
        "10ms..5ms",
        "..",
        "1e400s..",
        "step#",
        "step#-1",
        f"step#{10**30}",
        "0ns..1ns",
        "all",
        "steady",
        "-5ms..1s",
    )
    window = (
        rng.choice((*odd, *TEXTS, *map(str, NUMBERS))).replace("\0", "").encode("utf-8", "replace").decode()
    )
    command = rng.choice(
        (("stats", "--all"), ("diagnose",), ("report", "-f", "md"), ("timeline", "-o", "{out}/a.svg"))
    )
    return Asked([command[0], path, *command[1:], f"--window={window}".replace("{", "{{").replace("}", "}}")])


def _options(rng: random.Random, folder: Path) -> Asked:
    path = str(formats.make_random_export(folder / "in" / "run.sqlite", rng.randrange(1 << 30)))
    text = (
        rng.choice((*TEXTS, *map(str, NUMBERS), "nan", "inf"))
        .replace("\0", "")
        .replace("{", "(")
        .replace("}", ")")
    )
    command = rng.choice(
        (
            ["stats", path, f"--report={text}"],
            ["stats", path, "-f", text],
            ["stats", path, f"--with={text}"],
            ["stats", path, "-o", f"{{out}}/{text[:100].replace('/', '')}", "--all"],
            ["stats", text],
            ["stats", path, f"--launch={text}"],
            ["stats", path, f"--kernel={text}"],
            [text],
            [f"--{text}"],
            ["stats", f"--{text}"],
            ["diagnose", path, f"--only={text}"],
            ["compare", path, path, f"--fail-above={text}"],
            ["compare", path, path, f"--gate={text}"],
            ["compare", path, path, f"--only={text}"],
            ["compare", f"--group={text}", path],
            ["compare", path, path, f"--column={text}"],
            ["compare", path, f"--keep={text}", "--baselines={out}/b.json"],
            ["compare", path, "--baseline", text],
            ["compare", path, path, f"--undecided-exit={text}"],
            ["flame", path, "-o", "{out}/a.svg", f"--of={text}"],
            ["flame", path, "-o", "{out}/a.svg", f"--thread={text}"],
            ["report", path, f"--title={text}", "-f", "md"],
            ["report", path, f"--title={text}", "-o", "{out}/a.html"],
            ["report", path, f"--book={text}", "-f", "md"],
            ["report", path, f"--book={text}", "-o", "{out}/a.html"],
            ["report", path, f"--before={text}"],
            ["export", path, "-o", "{out}", f"--table={text}"],
            ["export", path, "-o", "{out}", f"--format={text}"],
            ["scrub", path, "-o", "{out}/a.sqlite", f"--also={text}"],
            ["exercises", text],
            ["exercises", f"--reset={text}"],
            ["exercises", f"--answers={text}"],
            ["captures", "verify", text],
            ["captures", "compare", text, text],
            ["capture", text, "--set", "mine"],
            ["capture", "doctor", "--set", text],
            ["capture", "doctor", "--set", "m", f"--budget={text}"],
            ["capture", "doctor", "--set", "m", f"--gpus={text}"],
            ["capture", "doctor", "--set", "m", f"--archive={text}"],
            ["kit", f"--python={text}", "-o", "{out}/k.tar"],
            ["kit", f"--machine={text}", "-o", "{out}/k.tar"],
            ["kit", f"--with=--{text}", "-o", "{out}/k.tar"],
            ["energy", f"--period={text}", "--", "true"],
            ["energy", f"--idle={text}", "--", "true"],
            ["record", f"--tool={text}", "--", "true"],
            ["profile", f"--mode={text}", "--dry-run", "true"],
            ["profile", f"--delay={text}", "--dry-run", "true"],
            ["profile", f"--limit={text}", "--dry-run", "true"],
            ["profile", f"--rendezvous={text}", "--dry-run", "true"],
            ["profile", f"--range={text}", "--dry-run", "true"],
            ["profile", "--dry-run", text or "x"],
            ["--limit", text, "stats", path, "--all"],
            ["grades", text],
            ["slides", text, "-o", "{out}/a.html"],
            ["new", text, text],
            ["bench", text],
            ["bench", f"--{text}"],
            ["roofline", path, "-o", "{out}/a.svg", f"--precision={text}"],
        )
    )
    sets = {"LABCODE_SETS": str(folder / "home" / "sets")} if command[0] == "capture" else {}
    return Asked([word.encode("utf-8", "replace").decode() for word in command], environment=sets)


def _rules(rng: random.Random, folder: Path) -> Asked:
    path = str(formats.make_random_export(folder / "in" / "run.sqlite", rng.randrange(1 << 30)))
    return Asked(["diagnose", path, "--rules", str(formats.python(rng, folder / "in"))])


def _set(*words: str) -> Make:
    def make(rng: random.Random, folder: Path) -> Asked:
        (folder / "home" / "sets").mkdir()
        root = formats.claims(rng, folder / "home" / "sets")
        for found in list(root.iterdir()):
            if not (root / "mine").exists():
                found.rename(root / "mine")
            if not (root / "h200").exists():
                shutil.copytree(root / "mine", root / "h200", symlinks=True)
        said = [rng.choice(word.split("||")).replace("OUT", "{out}") for word in words]
        return Asked(
            said, markdown="md" in said, document="json" in said, environment={"LABCODE_SETS": str(root)}
        )

    return make


def _archive(rng: random.Random, folder: Path) -> Asked:
    sets = folder / "out" / "sets"
    sets.mkdir()
    path = formats.archive(rng, folder / "in")
    environment = {"LABCODE_SETS": str(sets)}

    def after(_: Path, code: int) -> str:
        """What was added is whole, by the one who checks sets."""
        if code or not any(sets.iterdir()):
            return ""
        from labcode.capture import verify

        found = [line for name in (one.name for one in sets.iterdir()) for line in verify.verify(name)]
        found = [line for line in map(str, found) if "stale:" not in line]  # which adding them has said
        return f"added, and then: {found[0]}" if found else ""

    return Asked(["captures", "add", str(path)], environment=environment, after=after)


def _doctor(rng: random.Random, folder: Path) -> Asked:
    """Tools that print, wait, or end as they like."""
    programs = folder / "home" / "bin"
    programs.mkdir()
    for name in ("nsys", "ncu", "nvidia-smi", "nvcc", "dcgmi", "numactl", "lscpu"):
        text = rng.choice(TEXTS).encode("utf-8", "replace").replace(b"\0", b"")
        (folder / "home" / f"{name}.txt").write_bytes(
            rng.choice(
                (
                    text,
                    b"version 9" + b"9" * 100_000,
                    b"\xff" * 1000,
                    b"2025.3.1\n" * 1000,
                    b"release 13.0, V",
                )
            )
        )
        ends = rng.choice(
            ("exit 0", "exit 0", "exit 3", "kill -9 $$", "yes | head -c 3000000; exit 0", "exec sleep 3")
        )
        script = f"#!/bin/sh\ncat '{folder}/home/{name}.txt'\ncat '{folder}/home/{name}.txt' >&2\n{ends}\n"
        (programs / name).write_text(script)
        (programs / name).chmod(rng.choice((0o755, 0o755, 0o755, 0o644)))
    words = ["doctor", *rng.choice(([], ["--json"]))]
    return Asked(words, document="--json" in words, environment={"PATH": f"{programs}:/usr/bin:/bin"})


def _no_nsys(rng: random.Random, folder: Path) -> Asked:
    """A report that an nsys which is none is to export."""
    programs = folder / "home" / "bin"
    programs.mkdir()
    made = formats.make_random_export(folder / "home" / "made.sqlite", rng.randrange(1 << 30))
    text = rng.choice(TEXTS).encode("utf-8", "replace").replace(b"\0", b"")
    (folder / "home" / "said").write_bytes(text)
    does = rng.choice(
        (
            "exit 0",
            "exit 1",
            "kill -9 $$",
            "kill -SEGV $$",
            f'cp {made} "$out"',
            f'head -c 3000 {made} > "$out"',
        )
    )
    (programs / "nsys").write_text(
        '#!/bin/sh\nout=\nfor w in "$@"; do case $w in --output=*) out=${w#--output=};; '
        "*.sqlite) out=$w;; esac; done\n"
        f'if [ "$1" = --version ]; then echo NVIDIA Nsight Systems version 2025.3.1.90-1v0; exit 0; fi\n'
        f"cat {folder}/home/said; cat {folder}/home/said >&2\n{does}\n"
    )
    (programs / "nsys").chmod(0o755)
    (folder / "in" / "run.nsys-rep").write_bytes(b"report")
    words = rng.choice(
        (["stats", "--all"], ["diagnose"], ["timeline", "-o", "{out}/a.svg"], ["export", "-o", "{out}"])
    )
    file = str(folder / "in" / "run.nsys-rep")
    return Asked([words[0], file, *words[1:]], environment={"PATH": f"{programs}:/usr/bin:/bin"})


def _full(rng: random.Random, folder: Path) -> Asked:
    """A disk that is full somewhere in what is written."""
    export = str(formats.make_random_export(folder / "in" / "run.sqlite", rng.randrange(1 << 30)))
    trace = str(formats.traces.training(folder / "in", steps=2, layers=1)[0])
    words = rng.choice(
        (
            *(
                ["timeline", file, "-o", f"{{out}}/a.{end}"]
                for file in (export, trace)
                for end in ("svg", "html", "json")
            ),
            *(
                ["report", file, "-o", f"{{out}}/a.{end}"]
                for file in (export, trace)
                for end in ("html", "md", "json")
            ),
            *(
                ["stats", file, "--all", "-f", end, "-o", "{out}"]
                for file in (export, trace)
                for end in ("csv", "md")
            ),
            *(["export", export, "-o", "{out}", "-f", end] for end in ("csv", "parquet", "sqlite")),
            *(["scrub", export, "-o", "{out}/a.sqlite.xz"], ["scrub", trace, "-o", "{out}/a.trace.json"]),
            *(["captures", "pack", "h200", "easy_overhead", "--archive", "{out}/a.tar"],),
        )
    )
    return Asked(words, file_bytes=rng.choice((4096, 5000, 8192, 20_000, 65_536, 200_000)))


def _places(rng: random.Random, folder: Path) -> Asked:
    """Outputs where they cannot be: over the input, under a file, in no folder, over a device or a link."""
    path = formats.make_random_export(folder / "in" / "run.sqlite", 1, calls=10)
    link = folder / "in" / "link.sqlite"
    link.symlink_to(path)
    (folder / "in" / "hard.sqlite").hardlink_to(path)
    (folder / "in" / "taken.svg").write_text("mine")
    (folder / "in" / "folder.svg").mkdir()
    (folder / "in" / "dangling.svg").symlink_to("nowhere/at-all.svg")
    place = rng.choice(
        (
            *("run.sqlite", "link.sqlite", "hard.sqlite", "run.sqlite/a.svg", "none/a.svg", "folder.svg"),
            *(
                "dangling.svg",
                "a" * 300 + ".svg",
                "taken.svg",
                ".",
                "..",
                "/dev/full",
                "/dev/null",
                "/proc/a.svg",
            ),
        )
    )
    target = place if place.startswith("/") else str(folder / "in" / place)
    words = rng.choice(
        (
            ["timeline", str(path), "-o", target],
            ["report", str(path), "-o", target],
            ["scrub", str(path), "-o", target],
            ["stats", str(path), "--all", "-o", target],
            ["export", str(path), "-o", target],
            ["flame", str(path), "-o", target],
            ["report", str(path), "-f", "md", "-o", target],
            ["compare", str(path), str(path), "--column", "a=1,2", "--plot", target],
            ["exercises", "--hand-out", target],
            ["kit", "-o", target, "--python", "x"],
            ["slides", "intro", "-o", target],
            ["captures", "pack", "h200", "sweeps", "--archive", target],
            ["record", "-o", target, "--tool", "torch", "--", "true"],
            ["energy", "-o", target, "--", "true"],
        )
    )
    return Asked(words)


PAIRS: Sequence[Pair] = tuple(_pairs())
FOUND = (  # cases that broke something, beyond those that are sampled
    *("kineto:scrub/6", "nsys:stats/75", "words:options/12", "tools:report/16", "outputs:full/59"),
)
