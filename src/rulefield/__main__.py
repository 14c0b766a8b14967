"""``python -m rulefield`` is the command ``rulefield``."""

from rulefield.cli.main import main

if __name__ == "__main__":
    main()
