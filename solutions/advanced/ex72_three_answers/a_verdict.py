"""Exercise advanced-ex72, part a: a verdict.

`verdict(part, whole, threshold)`: 'unknown' where whole is 0; 'found' where part over whole is at least the
threshold; else 'not found'.

A worked example: verdict(30, 100, 0.25) is 'found', verdict(25, 100, 0.25), too; verdict(0, 0, 0.25) is
'unknown'.

Grade it:         labcode exercises advanced-ex72a        (or: nox -s exercises -- advanced-ex72a)
Get a hint:       labcode exercises advanced-ex72a --hint
"""


def verdict(part: int, whole: int, threshold: float) -> str:
    """One of three words."""
    # [solution]
    if whole == 0:
        return "unknown"
    return "found" if part / whole >= threshold else "not found"
    # [starter]
    # raise NotImplementedError("unknown first, then compare")
    # [end]


if __name__ == "__main__":
    print(verdict(30, 100, 0.25))
    print(verdict(0, 0, 0.25))
