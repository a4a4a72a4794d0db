"""``python -m provstore``: the same as the ``provstore`` command."""

from provstore.cli import main

if __name__ == "__main__":
    main()
