UPDATE mem_documents SET deleted_at = :at WHERE tenant_id = :tenant AND document_id = :document_id
