"""What all groups of commands share: help as plain text, by -h and --help."""

from typing import Any

PLAIN: dict[str, Any] = {
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
