"""Run the command line with ``python -m softlookup``."""

from softlookup.cli import main

if __name__ == "__main__":
    main()
