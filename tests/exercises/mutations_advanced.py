"""Typical mistakes in the exercises of the advanced part: (part, what is replaced, by what, the reason)."""

from __future__ import annotations

ADVANCED = [
    # ex03a: tables of the stats command line
    (
        "advanced-ex03a",
        "for report in REPORTS:\n        ending",
        'capture, _, rest = file_name.partition("_")\n    if file_name.endswith(".csv"):\n'
        "        return capture, rest[:-4]\n    for report in REPORTS:\n        ending",
        "the capture's name may hold underscores",
    ),
    (
        "advanced-ex03a",
        "for report in REPORTS:\n        ending",
        'capture, _, rest = file_name.rpartition("_")\n    if file_name.endswith(".csv"):\n'
        "        return capture, rest[:-4]\n    for report in REPORTS:\n        ending",
        "a report's name holds underscores",
    ),
    ("advanced-ex03a", " and len(file_name) > len(ending)", "", "a capture's name is never empty"),
    ("advanced-ex03a", " * NS[unit]", "", "the unit is ignored"),
    (
        "advanced-ex03a",
        "times.get(name, 0.0) + float(row[column])",
        "float(row[column])",
        "comes twice has several rows",
    ),
    (
        "advanced-ex03a",
        "csv.DictReader(stream)",
        "(dict(zip(h, line.rstrip().split(','))) for lines in [stream.read().splitlines()]"
        " for h in [lines[0].split(',')] for line in lines[1:] if line.count(',') >= 4)",
        "names hold commas: read the file with csv|the keys differ",
    ),
    (
        "advanced-ex03a",
        '"kernels": None, "copies": None, "waits": None',
        '"kernels": 0, "copies": 0, "waits": 0',
        "missing is not a time of 0",
    ),
    (
        "advanced-ex03a",
        "if file.stat().st_size == 0:",
        "if False:",
        "a file without a byte is a missing report",
    ),
    ("advanced-ex03a", 'if "Synchronize" in name)', ")", "all calls are added up"),
    (
        "advanced-ex03a",
        'if "Synchronize" in name)',
        'if name == "cudaDeviceSynchronize")',
        "other calls wait, too",
    ),
    (
        "advanced-ex03a",
        "return found\n",
        "return {c: t for c, t in found.items() if set(t.values()) != {None}}\n",
        "captures of which none of the three reports is there",
    ),
    ("advanced-ex03a", "in ranked[:count]]", "in ranked]", "all kernels are returned"),
    ("advanced-ex03a", "(-item[1][0], item[0])", "(item[1][0], item[0])", "the kernels with the least time"),
    ("advanced-ex03a", "time + ns, captures + 1", "max(time, ns), captures + 1", "the time of one capture"),
    # ex04: queries
    (
        "advanced-ex04a",
        "GROUP BY 1, 2, 3, 4",
        "GROUP BY deviceId, streamId",
        "in several processes are poured together",
    ),
    ("advanced-ex04a", "GROUP BY 1, 2, 3, 4", "GROUP BY streamId", "repeat from device to device"),
    ("advanced-ex04a", "GROUP BY 1, 2, 3, 4", "GROUP BY 1, 2, 4", "in two contexts of a process"),
    ("advanced-ex04a", " & 0xFFFFFF", "", "not yet the pid"),
    ("advanced-ex04a", "(globalPid >> 24) & 0xFFFFFF", "globalPid", "globalPid itself"),
    ("advanced-ex04a", "sum(end - start)", "avg(end - start)", "these are means"),
    ("advanced-ex04a", "ORDER BY 1, 2, 3, 4", "ORDER BY 6", "the right entries in the wrong order"),
    ("advanced-ex04b", "coalesce(e.text, s.value)", "e.text", "the text of some ranges is in StringIds"),
    ("advanced-ex04b", "LEFT JOIN StringIds", "JOIN StringIds", "entries, it has"),
    ("advanced-ex04b", "WHERE e.eventType IN (59, 60)", "", "marks and domains are no ranges"),
    ("advanced-ex04b", "IN (59, 60)", "= 59", "start/end ranges"),
    ("advanced-ex04b", "(59, 60)", "(59, 60) AND e.end IS NOT NULL", "ranges that never ended are left out"),
    ("advanced-ex04b", "coalesce(sum(e.end - e.start), 0)", "sum(e.end - e.start)", "is 0 here, not NULL"),
    ("advanced-ex04b", "sum(e.end IS NULL)", "count(e.end)", "these are the ones that ended"),
    ("advanced-ex04c", "\n      AND r.globalTid >> 24 = k.globalPid >> 24", "", "calls of other processes"),
    ("advanced-ex04c", "LEFT JOIN", "JOIN", "kernels whose launch was not recorded are lost"),
    ("advanced-ex04c", "count(r.start)", "count(*)", "`launched` counts the kernels with a known call"),
    ("advanced-ex04c", "k.start - r.start", "k.start - r.end", "the wait begins when the call begins"),
    ("advanced-ex04c", "avg(k.start - r.start)", "avg(coalesce(k.start - r.start, 0))", "not a wait of 0"),
    ("advanced-ex04c", "k.shortName", "k.demangledName", "group by the short name"),
    (
        "advanced-ex04d",
        "max(end - max(start, coalesce(before, start)), 0) AS ns",
        "end - start AS ns",
        "what overlaps counts twice",
    ),
    (
        "advanced-ex04d",
        "ROWS BETWEEN UNBOUNDED PRECEDING",
        "ROWS BETWEEN 1 PRECEDING",
        "looking back at one operation",
    ),
    (
        "advanced-ex04d",
        " UNION ALL\n  SELECT deviceId, start, end FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        "",
        "graphs that were traced as a whole are missing",
    ),
    (
        "advanced-ex04d",
        "max(start, low) AS start, min(end, high) AS end",
        "start, end",
        "reach over the window's ends",
    ),
]
