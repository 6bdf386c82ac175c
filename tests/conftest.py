"""What every test shares."""

from hypothesis import settings

# How long an example takes says more about the machine's other work than about the code.
settings.register_profile("kavka", deadline=None)
settings.load_profile("kavka")
