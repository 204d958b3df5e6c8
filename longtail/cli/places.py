"""Where a verb is to write what it finds: looked at before the work begins, as there is nothing to lose then."""

from __future__ import annotations

import os
from pathlib import Path

from longtail.errors import BadInput


def must_take(path: Path) -> None:
    """Refuse a place where no file can be written.

    Args:
        path: of a file, which may also be there, in a folder that may also not be there.

    Raises:
        BadInput: it is a folder, a pipe or a device, or lies in what is no folder, or in one where this user may not
            write.
    """
    above = next(place for place in path.absolute().parents if place.exists())
    is_open = path.is_symlink() and path.readlink().is_relative_to("/proc")  # as /dev/stdout is, which would be lost
    if is_open or (path.exists() and not path.is_file()):
        problem = f"expected a file to write, found {'a folder' if path.is_dir() else 'a pipe, a socket or a device'}"
    elif not above.is_dir():
        problem = f"expected a folder to write into, found a file, {above}"
    elif not os.access(above, os.W_OK):
        problem = f"expected a folder to write into, found one where you may not, {above}"
    else:
        return
    raise BadInput(path, problem, remedy="choose another place")
