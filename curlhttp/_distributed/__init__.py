"""What `curlhttp.distributed.fetch` is made of.

inputs cuts the URLs into partitions, lazily; part fetches one partition in a worker and writes its
part; an engine brings the one to the other; manifest says what is done, and run is the driver that
has it all happen. folders reads and writes files, here or in an object store.
"""
