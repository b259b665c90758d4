"""A fetch from and to a bucket: `python -m tests.distributed.object_store URL FORMAT`."""

from __future__ import annotations

import json
import os
import sys
import time

import fsspec
from moto.server import ThreadedMotoServer

from tests.distributed.test_fetch import fetched


def main(url: str, format: str) -> None:
    files = fsspec.filesystem("s3")
    files.mkdir("bucket")
    with files.open("bucket/urls.txt", "w") as stream:
        stream.write("\n".join(f"{url}/bytes/{n}" for n in range(30)))

    def go(**settings: object) -> None:
        summary = fetched(
            "s3://bucket/urls.txt",
            "s3://bucket/out",
            format=format,
            partition=10,
            inline=20,
            **settings,
        )
        assert (summary.rows, summary.statuses) == (30, {"200": 30})

    go()
    assert len(files.ls("bucket/out/parts")) == 3
    assert len(files.find("bucket/out/bodies")) == 9
    assert not files.exists("bucket/out/manifest/driver.json")
    if format == "parquet":
        from pyarrow import parquet

        table = parquet.read_table("bucket/out/parts", filesystem=files)
        assert sorted(table["row"].to_pylist()) == list(range(30))
    before = files.info("bucket/out/parts/part-00000000." + format)["LastModified"]
    go()
    files.invalidate_cache()
    assert files.info("bucket/out/parts/part-00000000." + format)["LastModified"] == before
    with files.open("bucket/out/manifest/driver.json", "w") as stream:
        stream.write(json.dumps({"time": time.time()}))
    try:
        go()
    except BlockingIOError as error:
        assert "another driver" in str(error)  # noqa: PT017 - no pytest here
    else:
        raise AssertionError("two drivers at once")
    with files.open("bucket/out/manifest/driver.json", "w") as stream:
        stream.write(json.dumps({"time": time.time() - 61}))
    go()


if __name__ == "__main__":
    os.environ.update(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ["AWS_ENDPOINT_URL_S3"] = f"http://{host}:{port}"
    try:
        main(*sys.argv[1:])
    finally:
        server.stop()
