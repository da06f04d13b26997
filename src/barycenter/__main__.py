"""`python -m barycenter` is the `barycenter` program."""

from barycenter.cli.main import main

if __name__ == "__main__":
    main()
