DELETE FROM mem_chunks WHERE tenant_id = :tenant AND document_id = :document_id
