SELECT SUM(alloc_bytes), SUM(used_bytes) FROM v$vector_memory_pool
