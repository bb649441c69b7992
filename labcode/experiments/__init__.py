"""The experiments of the book, a folder each: ``PART/NAME/``.

``experiment.toml`` says what is captured of it; ``program.py`` is what runs, ``cuda.py`` describes a program
of ``cuda/``, and further modules are what they are made of. ``expected.py`` computes what the experiment
should give and ``picture.py`` draws for its page: these two read, and import nothing that runs. ``shared`` is
what programs have in common.
"""
