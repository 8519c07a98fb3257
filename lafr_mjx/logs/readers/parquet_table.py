"""Tables as Apache Parquet; needs pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lafr_mjx.errors import InputError
from lafr_mjx.logs.log_readers import LogReader, ReadOptions
from lafr_mjx.logs.table_signals import table_log

if TYPE_CHECKING:
    from pathlib import Path

    from lafr_mjx.logs.raw_log import RawLog


class ParquetReader(LogReader):
    """Reads Parquet files by a column map."""

    label = ".parquet, .pq with --columns"
    suffixes = (".parquet", ".pq")

    def read(self, path: Path, options: ReadOptions) -> list[RawLog]:
        """One flight."""
        return [table_log(path, options, _columns)]


READER = ParquetReader()


def _columns(path: Path, _: list[str]) -> dict[str, np.ndarray]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            f"{path}: reading Parquet needs pyarrow: pip install 'lafr-mjx[logs]'"
        ) from error
    try:
        table = parquet.read_table(path, page_checksum_verification=True)
    except Exception as error:  # a cut or mangled file makes the reader raise almost anything
        text = " ".join(str(error).split())
        raise InputError(f"{path}: is not a readable Parquet file: {text[:300]}") from error
    data = {}
    for name in table.column_names:
        column = table.column(name)
        numeric = pyarrow.types.is_floating(column.type) or pyarrow.types.is_integer(column.type)
        if numeric:
            data[name] = np.asarray(column.to_numpy(zero_copy_only=False), float)
    return data
