DELETE FROM mem_documents WHERE tenant_id = :tenant
