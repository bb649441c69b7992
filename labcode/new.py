"""`labcode new`: a kind of thing and its name in; its recipe's files and lines written, what is next out.

What is written is registered and green at once; `skeletons.toml` holds the texts.
"""

import keyword
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from labcode.errors import LabError, nearest
from labcode.outputs import whole
from labcode.store import repository_root

_RULES = "labcode/analysis/rules"
_STATS = "labcode/analysis/stats"
_EXPERIMENTS = "labcode/experiments"
_READERS = "labcode/reports"
_KINDS = f"{_READERS}/common.py"
Written = Mapping[str, str]  # a file's path below the root, its text

# of a module of rules: what it judges, its group, and which of tests/support makes such files
_SUBJECTS = {
    "kineto": ("tables: Tables", "kineto", "traces"),
    "counters": ("tables: Tables", "counters", "gpu_metrics"),
    "ncu": ("launch: Launch", "ncu", "ncu"),
    "power": ("log: PowerLog", "power", "power"),
    "many_ranks": ("run: Run", "ranks", "ranks"),
}
_TIMELINES = ("tables: Tables", "timelines", "exports")


@dataclass(frozen=True)
class _Shelf:
    """Where a format's reports are: the file of their functions, the file and the beginning of their table,
    its line for one; what a function takes, what it counts, which of tests/support makes such files."""

    functions: str
    table: str
    begins: str
    line: str
    subject: str
    rows: str
    support: str


_SHELVES = {
    "nsys": _Shelf(
        f"{_STATS}/nsys/stacks.py",
        f"{_STATS}/nsys/reports.py",
        "DECLARED: ",
        '"@name@": _of_ours("stacks:@name@", _WORK),',
        "report: NsysReport",
        "report.gpu_ops()",
        "exports",
    ),
    "kineto": _Shelf(
        f"{_STATS}/kineto_gpu.py",
        f"{_STATS}/kineto.py",
        "REPORTS: ",
        '"@name@": _report(kineto_gpu.@name@, "Say what it tells.", of_gpu=True),',
        "report: KinetoReport",
        "report.gpu_ops()",
        "traces",
    ),
    "memory": _Shelf(
        "labcode/analysis/memory/history.py",
        f"{_STATS}/memory.py",
        "    reports={",
        '"@name@": memory_history.@name@,',
        "history: MemoryReport",
        "history.events",
        "histories",
    ),
    "power": _Shelf(
        "labcode/analysis/energy/reports.py",
        f"{_STATS}/power.py",
        "    reports={",
        '"@name@": _sampled(reports.@name@),',
        "log: PowerReport",
        "log.samples",
        "power",
    ),
    "ncu": _Shelf(
        f"{_STATS}/ncu.py",
        f"{_STATS}/ncu.py",
        "REPORTS: ",
        '"@name@": @name@,',
        "report: NcuReport",
        "report.list",
        "ncu",
    ),
    "ranks": _Shelf(
        f"{_STATS}/ranks.py",
        f"{_STATS}/ranks.py",
        "TIMELINE: ",
        '"@name@": @name@,',
        "run: Run",
        "run.lanes",
        "ranks",
    ),
}


def new(kind: str, place_and_name: str, root: Path | None = None) -> list[str]:
    """Write the skeleton of something new, one of `KINDS`; the lines to print.

    ``place_and_name`` is ``PLACE/NAME``: the part of the book, the format, the module of rules, the
    part of the experiments. Raises `LabError` for a kind or place there is not, for a name taken or bad.
    """
    root = repository_root() if root is None else root
    if not (root / "book" / "index.md").is_file():
        raise LabError(f"new: {root} is no checkout of the lab; run this in one")
    if kind not in KINDS:
        raise LabError(f"new: {kind!r} is not a kind; {nearest(kind, KINDS)}")
    recipe, places = KINDS[kind]
    place, _, name = place_and_name.partition("/")
    if place not in places(root):
        raise LabError(
            f"new {kind} PLACE/NAME: {place!r} is no place for it; one is {', '.join(places(root))}"
        )
    dashes = kind in ("page", "exercise", "rule")
    shape = r"[a-z][a-z0-9]*(-[a-z0-9]+)*" if dashes else r"[a-z][a-z0-9]*(_[a-z0-9]+)*"
    if not re.fullmatch(shape, name) or keyword.iskeyword(name):
        example = "two-words" if dashes else "two_words"
        raise LabError(f"new {kind}: {name!r} is no name for it; one is written {place}/{example}")
    files, then = recipe(root, place, name)
    said = []
    for path, text in files.items():
        target = root / path
        said.append(f"{'changed' if target.exists() else 'wrote'} {path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole(target) as made:
            made.write_text(text, encoding="utf-8", newline="\n")
    return [*said, *(f"next: {line}" for line in then)]


def _page(root: Path, part: str, name: str) -> tuple[Written, tuple[str, ...]]:
    path = f"book/{part}/{name}.md"
    _free(root, path)
    index = (root / "book/index.md").read_text(encoding="utf-8")
    last = _listed(index, part)[-1]
    return {
        path: _text("page", title=_title(name)),
        "book/index.md": index.replace(f"\n{last}\n", f"\n{last}\n{part}/{name}\n", 1),
    }, (
        f"write {path}: question, baseline, change; its cells show timeline_basics until you change them",
        "link it from a topic of book/guides/, then `nox -s book -- --strict`",
        "record its claims: `nox -s book -- --update-claims`",
    )


def _exercise(root: Path, part: str, name: str) -> tuple[Written, tuple[str, ...]]:
    there = [path.name for path in (root / "solutions" / part).iterdir()]
    taken = {one[2:4] for one in there if re.match(r"ex\d\d_", one)}
    if any(one[5:] == name.replace("-", "_") for one in there):
        raise LabError(f"new exercise: {part} has an exercise {name} already; choose another name")
    number = next((f"{n:02}" for n in range(1, 100) if f"{n:02}" not in taken), "")
    if not number:
        raise LabError(f"new exercise: {part} has no number left")
    slug, chapter = (
        f"ex{number}-{name}",
        _listed((root / "book/index.md").read_text(encoding="utf-8"), part)[0],
    )
    words = {"part": part, "slug": slug, "short": f"{part}-ex{number}", "chapter": chapter}
    words |= {"title": _title(name), "lower": _title(name).lower()}
    folder = f"{part}/{slug.replace('-', '_')}"
    page = (root / f"book/{chapter}.md").read_text(encoding="utf-8")
    cards = [found.end() for found in re.finditer(r"^```\{exercise-card\} .*\n```\n", page, re.M)]
    end = cards[-1] if cards else len(page)
    from labcode.grading.generate import starter

    solution = _text("exercise_solution", **words)
    texts = {
        "exercise.toml": "exercise",
        "a_cases.py": "exercise_cases",
        "a_mistakes.toml": "exercise_mistakes",
    }
    return {
        f"solutions/{folder}/a_answer.py": solution,
        **{f"solutions/{folder}/{file}": _text(text, **words) for file, text in texts.items()},
        f"exercises/{folder}/a_answer.py": starter(solution, "a_answer.py"),
        f"book/{chapter}.md": f"{page[:end]}\n```{{exercise-card}} {part}-{slug}\n```\n{page[end:]}",
    }, (
        f"write solutions/{folder}/ (solutions/README.md says how), and its chapter in exercise.toml",
        f"its card is the last on book/{chapter}.md: move it, to its chapter's page if that is another",
        f"`nox -s solutions` and `nox -s content -- -k {part}-ex{number}`",
    )


def _report(root: Path, of: str, name: str) -> tuple[Written, tuple[str, ...]]:
    shelf = _SHELVES[of]
    files = {path: (root / path).read_text(encoding="utf-8") for path in (shelf.functions, shelf.table)}
    if f'"{name}":' in files[shelf.table] or re.search(rf"^(def )?{name}\b", files[shelf.functions], re.M):
        raise LabError(f"new report: {name} is there already ({shelf.table}); choose another name")
    test = f"tests/analysis/stats/test_{name}.py"
    _free(root, test)
    words = {"name": name, "subject": shelf.subject, "rows": shelf.rows}
    text, function = files[shelf.functions], _text("report", **words)
    own = re.search(rf"^{re.escape(shelf.begins)}", text, re.M) if shelf.functions == shelf.table else None
    at = own.start() if own else len(text)  # a table names functions above it
    files[shelf.functions] = text[:at].rstrip() + "\n\n\n" + function + ("\n\n" + text[at:] if own else "")
    text = files[shelf.table]
    indent = " " * (len(shelf.begins) - len(shelf.begins.lstrip()))
    begins = text.index(f"\n{shelf.begins}")
    end = text.index(f"\n{indent}}}", begins) + 1
    files[shelf.table] = text[:end] + f"{indent}    {shelf.line.replace('@name@', name)}\n" + text[end:]
    files[test] = _text("report_test", name=name, format=of, support=shelf.support)
    return files, (
        f"write the function in {shelf.functions}; its first line of documentation is what --list says",
        f"say in {shelf.table} what data it needs, and in {test} what it gives",
    )


def _rule(root: Path, module: str, name: str) -> tuple[Written, tuple[str, ...]]:
    for told in sorted((root / _RULES).glob("*.py")):
        if re.search(rf'^    "{name}",', told.read_text(encoding="utf-8"), re.M):
            raise LabError(f"new rule: {name} is there already ({_RULES}/{told.name}); choose another name")
    path, function = f"{_RULES}/{module}.py", name.replace("-", "_")
    text = (root / path).read_text(encoding="utf-8")
    if re.search(rf"\b{function}\b", text):
        raise LabError(f"new rule: {path} has another {function}; choose another name")
    test = f"tests/analysis/rules/test_{function}.py"
    _free(root, test)
    subject, group, support = _SUBJECTS.get(module, _TIMELINES)
    words = {"name": name, "title": _title(name), "function": function, "subject": subject}
    words["decorator"] = "ncu_rule" if module == "ncu" else "rule"
    words["of"] = '\n    of=("nsys", "kineto"),' if module == "many_ranks" else ""
    return {
        path: text.rstrip() + "\n\n\n" + _text("rule", **words),
        test: _text("rule_test", name=name, group=group, support=support),
    }, (
        f"write the function at the end of {path}: numerator, denominator, and gain, which makes severity",
        f"say in {test} what it finds and what not; name the page that explains it (book=)",
    )


def _experiment(root: Path, part: str, name: str) -> tuple[Written, tuple[str, ...]]:
    for told in sorted((root / _EXPERIMENTS).glob("*/*/experiment.toml")):
        if name == told.parent.name or name in tomllib.loads(told.read_text(encoding="utf-8")):
            place = told.relative_to(root).parent
            raise LabError(f"new experiment: {name} is there already ({place}); choose another name")
    folder, test = f"{_EXPERIMENTS}/{part}/{name}", f"tests/experiments/test_{name}.py"
    if (root / folder).exists():
        raise LabError(f"new experiment: {folder} is there already; choose another name")
    _free(root, test)
    words = {"part": part, "name": name, "title": _title(name)}
    return {
        f"{folder}/__init__.py": _text("experiment_package", **words),
        f"{folder}/experiment.toml": _text("experiment", **words),
        f"{folder}/program.py": _text("experiment_program", **words),
        test: _text("experiment_test", **words),
    }, (
        f"write {folder}/program.py; try `python -m labcode.workloads.{name} --device cpu --json FILE`",
        f"describe its runs in {folder}/experiment.toml; CUDA goes to cuda/{name}/, described in its cuda.py",
        "what it should give goes to its expected.py, what it draws for its page to its picture.py",
        f"on a GPU machine: `labcode capture {name} --set h200`, then `labcode captures verify`",
    )


def _cuda(root: Path, part: str, name: str) -> tuple[Written, tuple[str, ...]]:
    """An experiment whose program is written in CUDA: its folder, and that of the program."""
    files, _ = _experiment(root, part, name)
    folder, cuda, test = f"{_EXPERIMENTS}/{part}/{name}", f"cuda/{name}", f"tests/cuda/test_{name}.py"
    if (root / cuda).exists():
        raise LabError(f"new cuda: {cuda} is there already; choose another name")
    _free(root, test)
    words = {"part": part, "name": name, "title": _title(name)}
    lists = {
        "cuda/CMakeLists.txt": f"add_subdirectory({name})",
        "cuda/README.md": f"| [{name}]({name}/{name}.cu) | say in a sentence what it shows |",
    }
    for path, line in lists.items():  # after the last line that begins so
        lines = (root / path).read_text(encoding="utf-8").splitlines()
        last = max(at for at, one in enumerate(lines) if one.startswith(line[:3]))
        lists[path] = "\n".join((*lines[: last + 1], line, *lines[last + 1 :], ""))
    return {
        f"{folder}/__init__.py": files[f"{folder}/__init__.py"],
        f"{folder}/experiment.toml": files[f"{folder}/experiment.toml"].replace('"torch"', '"nvcc"'),
        f"{folder}/cuda.py": _text("cuda_wrapper", **words),
        f"{cuda}/{name}.cu": _text("cuda_program", **words),
        f"{cuda}/Makefile": _text("cuda_make", **words),
        f"{cuda}/CMakeLists.txt": _text("cuda_cmake", **words),
        **lists,
        test: _text("cuda_test", **words),
    }, (
        f"write {cuda}/{name}.cu: baseline and improved, each checked; `make -C {cuda}` builds it",
        f"say in {folder}/cuda.py which variants and flags it has, in cuda/README.md what it shows",
        f"on a GPU machine: `labcode capture {name} --set h200`, then `labcode captures verify`",
    )


def _format(root: Path, _: str, name: str) -> tuple[Written, tuple[str, ...]]:
    """A reader, its declaration, and the kind's lines in the one table that all formats stand in."""
    folder, test, suffix = f"{_READERS}/{name}", f"tests/reports/test_{name}.py", f".{name.replace('_', '-')}"
    text = (root / _KINDS).read_text(encoding="utf-8")
    if (root / folder).exists() or f'"{name}"' in text or f'"{suffix}"' in text:
        raise LabError(f"new format: {name} is there already ({_KINDS}); choose another name")
    _free(root, test)
    lines = (("Kind = ", "]", f'"{name}",'), ("SUFFIXES: ", "}", f'"{name}": ("{suffix}",),'))
    for begins, end, line in lines:
        at = text.index(f"\n{end}\n", text.index(f"\n{begins}")) + 1
        text = f"{text[:at]}    {line}\n{text[at:]}"
    words = {"name": name, "title": _title(name), "lower": _title(name).lower(), "suffix": suffix}
    return {
        f"{folder}/__init__.py": _text("format", **words),
        f"{folder}/report.py": _text("format_reader", **words),
        _KINDS: text,
        test: _text("format_test", **words),
    }, (
        f"write {folder}/report.py, and in {_KINDS} how names of such files end",
        f"declare in {folder}/__init__.py what each command does with them; mypy says what is missing",
        "a reader that gives the tables of a trace (`KinetoReport`) declares what perfetto does",
    )


def _free(root: Path, *paths: str) -> None:
    for path in paths:
        if (root / path).exists():
            raise LabError(f"new: {path} is there already; choose another name")


def _text(skeleton: str, /, **words: str) -> str:
    texts = tomllib.loads(Path(__file__).with_name("skeletons.toml").read_text(encoding="utf-8"))
    text: str = texts[skeleton]
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text.lstrip("\n")


def _title(name: str) -> str:
    return re.sub("[-_]", " ", name).capitalize()


def _listed(index: str, part: str) -> list[str]:
    """The pages of a part that the book's table of contents names."""
    return re.findall(rf"^({re.escape(part)}/[\w-]+)$", index, re.M)


def _parts(root: Path) -> list[str]:
    index = (root / "book/index.md").read_text(encoding="utf-8")
    return list(dict.fromkeys(re.findall(r"^([a-z]+)/[\w-]+$", index, re.M)))


def _with_exercises(root: Path) -> list[str]:
    return [part for part in _parts(root) if (root / "solutions" / part).is_dir()]


def _modules_of_rules(root: Path) -> list[str]:
    written = {path.stem: path.read_text(encoding="utf-8") for path in (root / _RULES).glob("*.py")}
    return sorted(name for name, text in written.items() if re.search(r"^@(ncu_)?rule\($", text, re.M))


def _with_experiments(root: Path) -> list[str]:
    return sorted({path.parent.parent.name for path in (root / _EXPERIMENTS).glob("*/*/experiment.toml")})


Recipe = Callable[[Path, str, str], tuple[Written, tuple[str, ...]]]
KINDS: Mapping[str, tuple[Recipe, Callable[[Path], list[str]]]] = {
    "cuda": (_cuda, _with_experiments),
    "experiment": (_experiment, _with_experiments),
    "exercise": (_exercise, _with_exercises),
    "format": (_format, lambda _: ["reports"]),
    "page": (_page, _parts),
    "report": (_report, lambda _: list(_SHELVES)),
    "rule": (_rule, _modules_of_rules),
}
