SELECT name, value FROM mem_meta
