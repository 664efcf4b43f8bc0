UPDATE mem_documents SET deleted_at = NULL, live_identity = CASE WHEN is_head = 1 THEN :live_identity END WHERE tenant_id = :tenant AND document_id = :document_id
