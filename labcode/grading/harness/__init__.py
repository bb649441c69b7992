"""Programs that measure a learner's GPU part beside a baseline, each in a process of its own.

The Python ones import torch, and they alone: the grader reads only the JSON that they write.
"""
