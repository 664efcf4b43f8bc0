UPDATE mem_chunks SET search_text = search_text
WHERE tenant_id = :tenant AND id = :id
