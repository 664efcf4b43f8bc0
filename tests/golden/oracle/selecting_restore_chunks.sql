UPDATE mem_chunks SET deleted_at = NULL WHERE tenant_id = :tenant AND document_id = :document_id
