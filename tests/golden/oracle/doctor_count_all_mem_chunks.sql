SELECT COUNT(*) FROM mem_chunks t
