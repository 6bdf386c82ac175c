"""How much clients may use: limits and whom they are for, and the rates that what is used is held against."""
