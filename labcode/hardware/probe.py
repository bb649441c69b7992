"""stub"""
from typing import Any
def gpu_count() -> int: return 0
def machine_record() -> dict[str, Any]: return {"gpus": [], "gpu_count": 0}
def probe() -> dict[str, Any]: return {}
