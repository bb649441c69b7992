"""What nobody expects: texts, numbers and JSON that break what trusts them; a random generator in."""

import json
import random
from typing import Any

MARK = "zqx"  # in every text below that could become more than text, so that it can be found again
TEXTS = (
    f"\x1b[31m{MARK}\x1b[0m",
    f"\x1b]0;{MARK}\x07",
    f"\x9b2J{MARK}",
    f"a\r{MARK}\x08\x08",
    f"{MARK}\u202egnp.exe",
    f"\u2066{MARK}\u2069\u200b\ufeff",
    f"<script>{MARK}()</script>",
    f"<img src=x onerror={MARK}()>",
    f"</td></table></script><{MARK}>",
    f"<!-- {MARK} -->",
    f"[{MARK}](javascript:alert(1))",
    f"![{MARK}](https://{MARK}.example/a.png)",
    f"[{MARK}]: https://{MARK}.example",
    f"https://{MARK}.example/a_b",
    f"@{MARK} {MARK}@{MARK}.example #12",
    f"| {MARK} | `` ` {MARK}",
    f"# {MARK}\n## {MARK}\n- {MARK}",
    f"```\n{MARK}",
    f"${MARK}$ **{MARK}** _{MARK}_",
    f"=cmd|'/c {MARK}'!A0",
    f"{MARK}\n\n\t{MARK}",
    f"../../../{MARK}",
    f"%s%n{{0}}{{{MARK}}}%({MARK})s",
    f"{MARK}" * 400,
    f"{MARK}" * 30_000,
    "void " + "f<" * 300 + MARK + ">" * 300,
    f"{MARK} \U0001f600 \u0301\u0301\u0301",
    "",
    " ",
    "\x00",
    f"{MARK}\x00{MARK}",
    "nan",
    "-1",
    "1e400",
    "0x10",
    "true",
    "null",
)
NUMBERS = (
    *(0, -1, 1, 2, 255, 65536, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)),
    *(0.5, -0.0, 1e-320, 1e18, 1.7e308, -1e300),
)
HUGE = (2**63, 2**64, 10**30, 10**400, float("inf"), float("-inf"), float("nan"))


def weird(rng: random.Random) -> Any:
    """Any JSON value, more often a wrong one than not."""
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(TEXTS)
    if kind < 0.6:
        return rng.choice(NUMBERS)
    if kind < 0.72:
        return rng.choice(HUGE)
    if kind < 0.82:
        return rng.choice((None, True, False))
    if kind < 0.88:
        return rng.choice(([], {}, [[]], [{}], {"": None}, [None, None]))
    deep: Any = rng.choice((0, "x"))
    for _ in range(rng.choice((3, 60, 500))):
        deep = [deep] if rng.random() < 0.5 else {"a": deep}
    return deep


def changed(rng: random.Random, value: Any, times: int) -> Any:
    """A JSON value with so many parts replaced, dropped, doubled, renamed or wrapped; it is used up."""
    for _ in range(times):
        value = _changed_once(rng, value)
    return value


def _changed_once(rng: random.Random, value: Any) -> Any:
    place: Any = value
    keys: list[tuple[Any, Any]] = []  # (container, key) on the way down
    while isinstance(place, dict | list) and place:
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
        keys.append((place, key))
        place = place[key]
        if rng.random() < 0.15:
            break
    if not keys:
        return weird(rng)
    container, key = keys[-1]
    what = rng.randrange(8)
    if what <= 2:
        container[key] = weird(rng)
    elif what == 3:
        del container[key]
    elif what == 4 and isinstance(container, list):
        container.extend([container[key]] * rng.choice((1, 2, 300)))
    elif what == 4:
        container[rng.choice(TEXTS)] = container[key]
    elif what == 5 and isinstance(container, dict):
        container[rng.choice(TEXTS)] = container.pop(key)
    elif what == 5:
        rng.shuffle(container)
    elif what == 6:
        container[key] = rng.choice(([container[key]], {"a": container[key]}, str(container[key])))
    elif isinstance(container[key], bool | int | float):
        number = container[key]
        container[key] = rng.choice((-number, number * 10**9, float(max(min(number, 10**300), -(10**300)))))
    else:
        container[key] = rng.choice(NUMBERS)
    return value


def as_json(rng: random.Random, value: Any) -> bytes:
    """JSON, now and then no longer quite: cut off, with garbage, doubled, endless, half characters."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    data = text.encode("utf-8", errors="surrogatepass")
    what = rng.randrange(16)
    at = rng.randrange(len(data) + 1)
    if what == 0:
        return data[:at]
    if what == 1:
        return data[:at] + rng.randbytes(rng.choice((1, 4, 100))) + data[at:]
    if what == 2:
        return rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\n" * 1000)) + data
    if what == 3:
        return data + rng.choice((data, b"]", b"\0" * 100, b"{}"))
    if what == 4:
        return data.replace(b'"', rng.choice((b"'", b'"\\ud800', b'"\\u0000')), 3)
    if what == 5:
        numbers = [i for i, byte in enumerate(data) if 0x30 <= byte <= 0x39]
        if numbers:
            at = rng.choice(numbers)
            return data[:at] + b"9" * rng.choice((30, 5000)) + data[at:]
    return data


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Bytes of a packed or binary file: cut off, with other bytes, doubled, or as they were."""
    what, at = rng.randrange(6), rng.randrange(len(data) + 1)
    if what == 0:
        return data[:at]
    if what == 1:
        return data + data
    if what == 2:
        return data + rng.randbytes(64)
    if what == 3:
        put = rng.randbytes(rng.choice((1, 1, 4, 16)))
        return data[:at] + put + data[at + len(put) :]
    return data
