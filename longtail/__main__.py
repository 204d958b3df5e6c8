"""``python -m longtail`` is the command ``longtail``."""

import signal

# An import that it interrupts ends in a traceback, or aborts.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from longtail.cli import main

if __name__ == "__main__":
    main()
