"""`python -m pulsar_barycenter` is the `barycenter` program."""

from pulsar_barycenter.cli.main import main

if __name__ == "__main__":
    main()
