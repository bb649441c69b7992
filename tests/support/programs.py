"""Programs that stand for others: a place and the text of a shell script in, a file that can be run out."""

from pathlib import Path


def program(path: Path, text: str = "", shell: str = "/bin/sh") -> Path:
    """Write a program; ``shell`` is what reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{shell}\n{text}\n")
    path.chmod(0o755)
    return path
