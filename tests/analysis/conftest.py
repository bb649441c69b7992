"""Property-based tests here run without a deadline: the first call of a pandas function takes long."""

from hypothesis import settings

settings.register_profile("lab", deadline=None, max_examples=60)
settings.load_profile("lab")
