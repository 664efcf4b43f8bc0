SELECT COUNT(*) FROM mem_documents t WHERE t.tenant_id = :other
