"""The names of ranges by which programs tell readers what is what."""

STEP = "ProfilerStep#"  # what torch.profiler calls its steps
MEASURED = "lab:measured"  # the part that counts; `labcode.experiments.shared.common` opens it
