"""Rows of a model that a GPU can't do are told apart from those that it can."""

import pandas as pd
import pytest

from labcode.analysis.possible import impossible, require
from labcode.errors import LabError

H200 = {"name": "NVIDIA H200", "memory_bytes": 150_109_880_320}


def test_a_batch_that_does_not_fit_into_memory() -> None:
    rows = pd.DataFrame({"needs_bytes": [91e9, 177e9]}, index=[512, 1024])
    assert impossible(rows, H200).to_dict() == {512: "", 1024: "177 GB, above the memory of 150.1 GB"}
    assert impossible(rows, H200, gpus=2).eq("").all()
    with pytest.raises(LabError, match="row 1024 of the model is impossible on NVIDIA H200: 177 GB, above"):
        require(rows, H200)
    require(rows.iloc[:1], H200)


def test_rates_above_the_data_sheet() -> None:
    rows = pd.DataFrame({"bytes_per_s": [4.4e12, 5.0e12], "flops_per_s": [900e12, 1100e12]})
    assert impossible(rows, H200).tolist() == [
        "",
        "5 TB/s, above the bandwidth of 4.8 TB/s; 1,100 TFLOP/s, above the peak of 989.5 TFLOP/s",
    ]
    assert impossible(rows, H200, precision="fp32")[0] == "900 TFLOP/s, above the peak of 67 TFLOP/s"


def test_what_nobody_knows_forbids_nothing() -> None:
    rows = pd.DataFrame({"needs_bytes": [float("nan"), 1e15], "bytes_per_s": [1e15, 1e15]})
    assert impossible(rows, {"name": "a card of its own"}).tolist() == ["", ""]
    with pytest.raises(LabError, match="nothing to check: the rows have none of the columns needs_bytes"):
        impossible(rows[[]], H200)
