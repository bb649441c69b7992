"""How numbers, names and tables look, once for every command, page and benchmark.

Whatever people read goes through here: on a terminal, in Markdown and in HTML no name steers, links or turns
the text around it. CSV and JSON in files and pipes keep names as they were recorded, for programs.
"""

from labcode.show.numbers import (
    byte_text,
    jsonable,
    number,
    percent,
    period,
    time_text,
    value_text,
    whole_percent,
)
from labcode.show.tables import (
    CELLS,
    FORMATS,
    Paper,
    check_format,
    csv_cells,
    grid,
    html_facts,
    html_table,
    write_csv,
    write_json,
)
from labcode.show.text import LONGEST, cut, html, markdown, one_line, page_data, visible

__all__ = [
    "CELLS",
    "FORMATS",
    "LONGEST",
    "Paper",
    "byte_text",
    "check_format",
    "csv_cells",
    "cut",
    "grid",
    "html",
    "html_facts",
    "html_table",
    "jsonable",
    "markdown",
    "number",
    "one_line",
    "page_data",
    "percent",
    "period",
    "time_text",
    "value_text",
    "visible",
    "whole_percent",
    "write_csv",
    "write_json",
]
