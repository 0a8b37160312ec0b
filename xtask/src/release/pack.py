"""Packs a directory as a wheel: pack.py DIRECTORY WHEEL.

The directory has the content of the wheel without RECORD, the list of its files with their hashes.
Equal directories become equal wheels.
"""

import base64
import csv
import hashlib
import io
import os
import sys
import zipfile


def files_of(directory):
    """The paths of all files below a directory; those about the wheel itself come last."""
    names = [
        os.path.relpath(os.path.join(place, name), directory)
        for place, _, files in os.walk(directory)
        for name in files
    ]
    return sorted(names, key=lambda name: (".dist-info/" in name, name))


def add(archive, name, data, mode):
    info = zipfile.ZipInfo(name)
    info.external_attr = (0o100000 | mode) << 16
    archive.writestr(info, data, zipfile.ZIP_DEFLATED, compresslevel=9)


def pack(directory, wheel):
    names = files_of(directory)
    record = names[-1].split("/")[0] + "/RECORD"
    lines = io.StringIO()
    rows = csv.writer(lines, lineterminator="\n")
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                data = file.read()
            add(archive, name, data, 0o755 if os.access(path, os.X_OK) else 0o644)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
            rows.writerow([name, "sha256=" + digest.decode().rstrip("="), len(data)])
        rows.writerow([record, "", ""])
        add(archive, record, lines.getvalue(), 0o644)


if __name__ == "__main__":
    pack(*sys.argv[1:])
