"""`python -m kavka` is the `kavka` command."""

from kavka.cli.app import main

if __name__ == "__main__":
    main()
