SELECT COUNT(*) FROM mem_chunks t WHERE t.tenant_id = :other
