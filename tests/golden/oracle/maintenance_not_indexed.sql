SELECT c.id FROM mem_chunks c
WHERE c.tenant_id = :tenant AND c.id NOT IN (
  SELECT i.id FROM mem_chunks i
  WHERE i.tenant_id = :tenant AND CONTAINS(i.search_text, '{zqall}', 1) > 0)
ORDER BY c.id
