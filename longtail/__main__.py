"""``python -m longtail`` is the command ``longtail``."""

from longtail.cli import main

main()
