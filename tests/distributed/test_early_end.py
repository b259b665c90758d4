"""A partition that ends early keeps its rows, and writes each row once, whenever it is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from curlhttp._features.fetch.formats import Format
from curlhttp.distributed.partition import Partition, TextLines
from curlhttp.distributed.summary import PartResult
from curlhttp.distributed.worker import StopRequest, WorkerConfig, pickle_settings, run_partition
from tests.distributed.test_fetch import rows_of
from tests.servers import AppConnection, AppServer, Record

LINES = 12


class Run:
    """Run one partition, whose line 5 stops it the first time."""

    def __init__(self, app: AppServer, tmp_path: Path, format: Format = "jsonl") -> None:
        self.out, self.app, self.stop = tmp_path / "out", app, StopRequest()
        app.route("/stop", self._stop)
        lines = [f"{app.url}/{'stop' if n == 5 else 'bytes/1'}?n={n}" for n in range(LINES)]
        file = tmp_path / "urls.txt"
        file.write_text("\n".join(lines))
        self._config = WorkerConfig(str(self.out), format, 1, None, True, pickle_settings({}))
        source = TextLines(str(file), 0, file.stat().st_size, 0)
        self._partition = Partition(0, source, "00000000")

    def _stop(self, record: Record, conn: AppConnection) -> None:
        self.stop.is_set = True
        conn.reply(200)

    def run(self) -> PartResult:
        self.app.reset_counts()
        return run_partition(self._config, self._partition, stop=self.stop)

    def run_to_the_end(self) -> tuple[PartResult, list[int]]:
        """Run again without a stop; return the result and the lines that were asked for."""
        self.app.route("/stop", lambda _, conn: conn.reply(200))
        self.stop.is_set = False
        result = self.run()
        return result, sorted(int(record.query("n")) for record in self.app.requests)

    def rows(self) -> list[int]:
        return [row["row"] for row in rows_of(self.out)]


def test_the_rest_of_a_partition_goes_to_another_part(app: AppServer, tmp_path: Path) -> None:
    run = Run(app, tmp_path)
    early = run.run()
    kept = run.rows()
    assert early.is_early
    assert 5 <= len(kept) == early.rows < LINES
    result, sent = run.run_to_the_end()
    assert sent == sorted({*range(LINES)} - {*kept})
    assert (result.rows, result.parts, result.is_early) == (LINES, 2, False)
    assert result.statuses == {"200": LINES}
    assert run.rows() == [*range(LINES)]
    assert run.run_to_the_end() == (result, [])


def test_a_kill_before_an_early_part_appears_loses_it_alone(app: AppServer, tmp_path: Path) -> None:
    run = Run(app, tmp_path)
    run.run()
    (run.out / "parts" / "part-00000000.jsonl").unlink()
    result, sent = run.run_to_the_end()
    assert sent == [*range(LINES)] == run.rows()
    assert (result.rows, result.parts) == (LINES, 1)


def test_a_kill_before_the_result_of_the_last_part_repeats_it_alone(
    app: AppServer, tmp_path: Path
) -> None:
    run = Run(app, tmp_path)
    run.run()
    kept = run.rows()
    run.run_to_the_end()
    (run.out / "manifest" / "00000000.json").unlink()
    result, sent = run.run_to_the_end()
    assert sent == sorted({*range(LINES)} - {*kept})
    assert (result.rows, run.rows()) == (LINES, [*range(LINES)])


def test_a_partition_without_rows_has_no_part_when_it_ends_early(
    app: AppServer, tmp_path: Path
) -> None:
    run = Run(app, tmp_path)
    run.stop.is_set = True
    result = run.run()
    assert (result.is_early, result.rows, app.requests) == (True, 0, [])
    assert not list(run.out.glob("parts/*"))
    assert run.run_to_the_end()[1] == [*range(LINES)]


@pytest.mark.parametrize("format", ["parquet"])
def test_other_formats_know_their_rows(app: AppServer, tmp_path: Path, format: Format) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is missing")
    from tests.distributed.test_rows import table_of

    run = Run(app, tmp_path, format)
    assert run.run().is_early
    result, sent = run.run_to_the_end()
    assert len(sent) < LINES
    assert result.rows == LINES
    assert [row["row"] for row in table_of(run.out)] == [*range(LINES)]
