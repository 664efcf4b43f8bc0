UPDATE mem_chunks SET expires_at = :expires_at
WHERE tenant_id = :tenant AND document_id = :document_id AND version = :version
