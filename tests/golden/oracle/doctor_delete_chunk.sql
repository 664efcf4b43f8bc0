DELETE FROM mem_chunks WHERE tenant_id = :tenant
