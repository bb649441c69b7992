"""The program ``cuda/softmax``: its variants and its flags."""

from labcode.experiments.shared.cuda import of_rows

program = of_rows("softmax", "Softmax")
