"""The names of ranges by which programs tell readers what is what."""

MEASURED = "lab:measured"  # the part that counts; `labcode.experiments.shared.common` opens it
