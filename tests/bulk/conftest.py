"""Tables of texts in parts."""

from __future__ import annotations

import pytest

from longtail.testing.planted import planted


@pytest.fixture(scope="session")
def titles():
    return list(planted(0, documents=400, test_documents=50, labels=120).dataset.test.documents.fields["title"])


@pytest.fixture
def write_parts(titles):
    """Write tables of 40 rows with row groups of 15, and return their rows by the name of the file."""
    pyarrow = pytest.importorskip("pyarrow", reason="the extra longtail[parquet] is not installed")
    from pyarrow import parquet

    def write(folder, names=("a.parquet", "b.parquet", "c.parquet"), **columns):
        rows = {}
        for i, name in enumerate(names):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            own = [f"{titles[j % len(titles)]} {titles[i]}" for j in range(40)]
            table = pyarrow.table(
                {"number": pyarrow.array(range(40 * i, 40 * i + 40), "int16"), "title": own, **columns}
            )
            parquet.write_table(table, path, row_group_size=15)
            rows[name] = table
        return rows

    return write
