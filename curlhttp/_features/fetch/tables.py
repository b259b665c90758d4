"""Tables of results in Parquet, through pyarrow: what type each column has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from types import ModuleType

MAX_ROWS = 1000  # in a row group
MAX_BYTES = 8 << 20  # in a row group, approximately
TIMINGS = ("queue", "dns", "connect", "tls", "first_byte", "total")


def import_pyarrow() -> tuple[ModuleType, ModuleType]:
    """Import pyarrow and pyarrow.parquet.

    Raises:
        ImportError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            "Parquet needs pyarrow: pip install 'curlhttp[parquet]', or use format='jsonl'"
        ) from error
    return pyarrow, parquet


def build_schema(arrow: ModuleType, names: Iterable[str], *, required: Iterable[str]) -> Any:
    """Return the schema of a table.

    Args:
        arrow: the module pyarrow.
        names: of the columns, in order.
        required: those that are never null.
    """
    text, whole, number = arrow.string(), arrow.int64(), arrow.int32()
    seconds, flag = arrow.float64(), arrow.bool_()
    types = {  # all others are text
        "line": whole,
        "row": whole,
        "ok": flag,
        "status": number,
        "headers": arrow.map_(text, arrow.list_(text)),
        "curl_code": number,
        "request_sent": flag,
        "last_status": number,
        "retry_after": seconds,
        "unchanged": flag,
        "attempts": number,
        "elapsed": seconds,
        "timings": arrow.struct([(name, seconds) for name in TIMINGS]),
        "size": whole,
        "body": arrow.binary(),
        "fetched_at": arrow.timestamp("ms", tz="UTC"),
    }
    never_null = frozenset(required)
    return arrow.schema(
        [
            arrow.field(name, types.get(name, text), nullable=name not in never_null)
            for name in names
        ]
    )


def open_table(parquet: ModuleType, stream: BinaryIO, schema: Any) -> Any:
    """Return a writer of row groups.

    Args:
        parquet: the module pyarrow.parquet.
        stream: the file.
        schema: of the table.
    """
    # The statistics of a column hold its least and its greatest value in memory.
    with_statistics = [name for name in schema.names if name != "body"]
    return parquet.ParquetWriter(
        stream, schema, compression="zstd", write_statistics=with_statistics
    )
